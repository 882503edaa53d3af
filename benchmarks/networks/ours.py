"""Our contestants: `seqtune.pytorch.optimize`, compared with PyTorch's code and by prediction alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from benchmarks.common.progress import say
from seqtune.tuner.measuring.deadline import NETWORK

from .case import Case, Run, called

SILENT = frozenset({  # operations that compute nothing in inference: memory, its views, checks
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_", "set_", "detach", "detach_",
    "alias", "dropout", "dropout_", "_assert_tensor_metadata", "view", "_unsafe_view", "reshape", "_reshape_alias",
    "as_strided", "expand", "expand_as", "permute", "transpose", "t", "slice", "narrow", "select", "chunk", "split",
    "split_with_sizes", "unbind", "squeeze", "unsqueeze", "flatten", "unflatten", "view_as", "lift_fresh", "numpy_T",
    "movedim", "result_type", "to"})
LIBRARIES = ("aten", "mkldnn", "mkldnn_prepacked", "mkl", "onednn", "quantized")  # namespaces of PyTorch's operations
INDUCTOR = "## Call CompiledFxGraph"  # begins the name of a call of what Inductor compiled


@dataclass(frozen=True)
class OurOptions:
    """Options of our contestants."""

    budget: float = NETWORK  # seconds for comparing the network with PyTorch's code
    checkpoint: str = "default"


def ours(case: Case, options: OurOptions, verify: bool) -> Run:
    """Optimise the case's network. Raises SeqtuneError where it cannot be, UnavailableError where a part is missing."""
    from seqtune.pytorch import optimize

    model = optimize(case.model, tuple(case.inputs), device=case.device, progress=say, verify=verify,
                     budget=options.budget, checkpoint=options.checkpoint,
                     journal=case.folder / f"{'verified' if verify else 'predicted'}.sqlite", precision=case.dtype)
    return called(model, case, case.inputs)  # the operands of a model in fp32 are fp32


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
