"""Our contestants: `seqtune.pytorch.optimize`, or our backend of torch.compile, verified and by prediction alone."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.errors import UnavailableError
from seqtune.tuner.measuring.budget import NETWORK, SECONDS

from .case import Case, Run
from .torch_peers import called

SILENT = frozenset({  # operations that compute nothing in inference: memory, its views, checks
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_", "detach", "detach_",
    "alias", "dropout", "dropout_", "_assert_tensor_metadata", "view", "_unsafe_view", "reshape", "_reshape_alias",
    "as_strided", "expand", "expand_as", "permute", "transpose", "t", "slice", "narrow", "select", "chunk", "split",
    "split_with_sizes", "unbind", "squeeze", "unsqueeze", "flatten", "unflatten", "view_as", "lift_fresh", "numpy_T",
    "movedim", "result_type", "to"})
LIBRARIES = ("aten", "mkldnn", "mkldnn_prepacked", "mkl", "onednn", "quantized")  # of PyTorch's operations
INDUCTOR = "## Call CompiledFxGraph"  # begins the name of a call of what Inductor compiled


@dataclass(frozen=True)
class OurOptions:
    """Options of our contestants."""

    form: str = "optimize"  # or compile
    budget: float = NETWORK  # seconds for verifying the network
    seconds: float = SECONDS  # most seconds for verifying one layer
    checkpoint: str = "default"
    journal: Path | None = None  # of verified layers; None: all are verified anew


def ours(case: Case, options: OurOptions, verify: bool) -> Run:
    """Optimise the case's network. Raises SeqtuneError where it cannot be, UnavailableError where a part is missing."""
    return FORMS[options.form](case, options, verify)


def _optimized(case: Case, options: OurOptions, verify: bool) -> Run:
    from seqtune.pytorch import optimize

    settings: dict[str, Any] = {}
    if case.dtype != "fp32":
        if "precision" not in inspect.signature(optimize).parameters:
            raise UnavailableError(f"seqtune.pytorch.optimize computes in fp32 only, not in {case.dtype}")
        settings["precision"] = case.dtype
    model = optimize(case.model, tuple(case.inputs), device=case.device, verify=verify, budget=options.budget,
                     seconds=options.seconds, checkpoint=options.checkpoint, journal=_journal(case, options),
                     **settings)
    return called(model, case, case.inputs)  # the operands of a model in fp32 are fp32


def _compiled(case: Case, options: OurOptions, verify: bool) -> Run:
    import torch

    if "seqtune" not in torch._dynamo.list_backends(exclude_tags=None):
        raise UnavailableError("torch.compile knows no backend seqtune here: install this version of seqtune")
    settings: dict[str, Any] = {
        "verify": verify, "budget": options.budget, "seconds": options.seconds,
        "journal": str(_journal(case, options)), **({"precision": case.dtype} if case.dtype != "fp32" else {})}
    return called(torch.compile(case.copied(), backend="seqtune", options=settings), case)


FORMS: dict[str, Callable[[Case, OurOptions, bool], Run]] = {"optimize": _optimized, "compile": _compiled}


def _journal(case: Case, options: OurOptions) -> Path:
    return options.journal or case.folder / "trials.sqlite"


def operations_of(run: Run) -> dict[str, int]:
    """The operations of PyTorch that one call makes and that compute something: name -> number of calls.

    Operations within operations do not count, nor do our own. Each graph that Inductor compiled counts as one.
    """
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        run()
    return dict(Counter(event.name for event in profiled.events() if _computes(event)).most_common())


def _computes(event: Any) -> bool:
    library, _, name = event.name.partition("::")
    if event.name.startswith(INDUCTOR):
        return True
    if not name or library not in LIBRARIES or name in SILENT:
        return False
    parent = event.cpu_parent
    while parent is not None:
        if "::" in parent.name and parent.name.partition("::")[2] not in SILENT:
            return False
        parent = parent.cpu_parent
    return True
