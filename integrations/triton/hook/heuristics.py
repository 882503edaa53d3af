"""Heuristics: the dictionary for triton.heuristics, which asks the file of a dispatch instead of a benchmark.

Triton calls each function at every launch; a shape that was seen before on the same GPU costs a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.triton.text import AMD_ONLY
from seqtune.predictor.answering import answering
from seqtune.predictor.dispatch.predictor import dispatched_predictor

from .pruning import Pruning, prune

if TYPE_CHECKING:
    from seqtune.kernels.operations.feature import Value


def heuristics(dispatcher: str | Path, *, names: Mapping[str, str] | None = None, device: Device | str | None = None,
               **features: Value) -> dict[str, Callable[[Mapping[str, Any]], Setting]]:
    """Make the dictionary for `@triton.heuristics` from the JSON file that `seqtune dispatch` wrote.

    It has a function for every parameter of the kernel, also for `num_warps` and `num_stages`. `names`, `device` and
    `features` are those of `prune`. A shape for which no member is valid gets the safe default. Raises MisuseError for
    arguments that can never work, FormatError for another file; the functions raise SeqtuneError where a launch
    describes no problem.
    """
    predictor = dispatched_predictor(dispatcher)
    if len(predictor.names) > 1:
        raise MisuseError(f"{dispatcher} chooses among several kernels ({', '.join(predictor.names)}); a kernel takes "
                          "the parameters of one")
    given: dict[str, Any] = {"names": names, "device": device, "checkpoint": dispatcher, **features}
    pruning: Pruning = prune(predictor.dispatcher.operation.name, **given)["early_config_prune"]
    known: dict[tuple[str, tuple[tuple[str, Value], ...]], Mapping[str, Setting]] = {}

    def setting(name: str, arguments: Mapping[str, Any]) -> Setting:
        values = pruning.problem_features(arguments)
        gpu = pruning.asking.gpu()
        key = gpu.key, tuple(values.items())
        if key not in known:
            (first,) = answering(Problem.make(pruning.kind, **values), gpu, dispatcher).propose(1)
            known[key] = dict(first.settings)
        return known[key][name]

    own = predictor.dispatcher.device
    nvidia = own is not None and own.architecture.startswith("sm_")  # its compiler refuses AMD's options
    return {pruning.names.get(name, name): partial(setting, name) for name in kernel(predictor.names[0]).by_name
            if not (nvidia and name in AMD_ONLY)}
