"""Contests of the kernel benchmarks: ways to compute a problem, ours and PyTorch's, that take turns in one process.

Ours: a search of `--trials` configurations per family, which a journal keeps, chooses beforehand, in a process of its
own; then each family's best is built anew and timed. Every side has its constant operand packed before, where its API
allows that, and reads an input that is there already; PyTorch and our llvm kernels make their results in new memory, as
a call does.

All take turns, a sample each, for a number of rounds; the least sample counts. A sample loops calls for some
milliseconds, after calls that are not counted: idle threads may have gone to sleep. Our kernels run on the OpenMP
threads of PyTorch, so that no other pool's spinning threads disturb either side. Errors are max|difference| /
max|reference|, the reference in float64; an answer with a larger error than the problem allows ends the program.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common.report import Row
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seqtune.data.journal import Journal
    from seqtune.kernels.device import Device
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder
    from seqtune.tuner.measuring.runner import Measurer
    from seqtune.tuner.measuring.timing import Expected

SAMPLE_SECONDS = 2e-3
WARM_UP_SECONDS = 5e-4


@dataclass(frozen=True)
class Way:
    """One way to compute a problem: `run` does it once."""

    method: str
    run: Callable[[], object]
    error: float
    about: Mapping[str, Any] = field(default_factory=dict)


def take_turns(ways: Sequence[Way], rounds: int, rest: float = 0.0) -> dict[str, float]:
    """The least seconds of every way. `rest` seconds before a turn let another pool's idle threads stop spinning."""
    from seqtune.tuner.measuring.timing import sample

    least = dict.fromkeys((way.method for way in ways), math.inf)
    calls = [1] * len(ways)
    for turn in range(rounds):
        for step in range(len(ways)):
            place = (turn + step) % len(ways)
            time.sleep(rest)
            run: Any = ways[place].run
            _, calls[place] = sample(run, WARM_UP_SECONDS, 1)
            one, _ = sample(run, SAMPLE_SECONDS, 4 * calls[place])
            least[ways[place].method] = min(least[ways[place].method], one)
    return least


def rows_of(label: str, threads: int, ways: Sequence[Way], seconds: Mapping[str, float], flop: int) -> list[Row]:
    """A row per way."""
    return [{"layer": label, "threads": threads, "method": way.method, "seconds": seconds[way.method],
             "gflops": flop / seconds[way.method] / 1e9, "error": way.error, **way.about} for way in ways]


def searched(problem: Problem, device: Device, family: Kernel, journal: Journal, trials: int,
             measurer: Measurer) -> Configuration:
    """The best configuration of one family that a search finds. Raises SeqtuneError where nothing ran."""
    from seqtune.kernels.task import Task
    from seqtune.tuner.tune import Budget, TuningOptions, tune

    found = tune(Task.of(problem, device, [family]), journal, measurer, Budget(trials=trials), TuningOptions("local"))
    if found.configuration is None:
        raise SeqtuneError(f"no configuration of {family.name} ran {problem.brief()} on {device.name}")
    print(f"{device.name} {problem.brief()}: {family.name} {found.configuration.brief()}, {found.done} trials, "
          f"{found.resumed} of them known", file=sys.stderr, flush=True)
    return found.configuration


def tensor(array: NDArray[np.float32]) -> Any:
    """The same numbers as a tensor of its own (operands are read-only)."""
    import torch

    return torch.from_numpy(array.copy())


def checked(expected: Expected, run: Callable[[], Any], what: str) -> float:
    """The error of a result in the problem's layout. Raises SeqtuneError where it is too large."""
    error = expected.error(run())
    if not error <= expected.tolerance:
        raise SeqtuneError(f"{what} computes something else: error {error:.1e}")
    return error


def our_way(binder: KernelBinder, problem: Problem, operands: Operands, expected: Expected,
            configuration: Configuration, method: str) -> Way:
    """A configuration on memory of PyTorch's. Raises SeqtuneError on a wrong result."""
    import torch

    kernel = binder.bind(problem, configuration, operands["weights"], operands.get("bias"))
    x, shape = tensor(operands["x"]), expected.y.shape

    def run() -> None:
        y = torch.empty(shape)
        kernel(x.data_ptr(), y.data_ptr())

    def result() -> Any:
        y = torch.full(shape, math.nan)
        kernel(x.data_ptr(), y.data_ptr())
        return y.numpy()

    return Way(method, run, checked(expected, result, configuration.brief()),
               {"configuration": dict(configuration.settings)})


def convolution_ways(problem: Problem, operands: Operands, expected: Expected) -> list[Way]:
    """PyTorch's ways of a convolution in NHWC: oneDNN's with packed weights, and F.conv2d in both formats."""
    import torch
    from torch.nn.functional import conv2d

    stride, padding, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                 for name in ("stride", "pad", "dilation"))
    groups, last = problem.size("groups"), torch.channels_last
    x, weights = tensor(operands["x"]).permute(0, 3, 1, 2), tensor(operands["weights"])  # NHWC memory is channels_last
    plain, weights_last = x.contiguous(), weights.contiguous(memory_format=last)
    reorder: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
    packed = reorder(weights.to_mkldnn(), padding, stride, dilation, groups, list(x.shape))
    pointwise = torch.ops.mkldnn._convolution_pointwise
    runs: dict[str, Callable[[], Any]] = {
        "onednn": lambda: pointwise(x, packed, None, padding, stride, dilation, groups, "none", [], ""),
        "conv2d_channels_last": lambda: conv2d(x, weights_last, None, stride, padding, dilation, groups),
        "conv2d_nchw": lambda: conv2d(plain, weights, None, stride, padding, dilation, groups)}

    def result(run: Callable[[], Any]) -> Any:
        return run().permute(0, 2, 3, 1).contiguous().numpy()

    return [Way(name, run, checked(expected, partial(result, run), name)) for name, run in runs.items()]


def geometric_mean(values: Sequence[float]) -> float:
    """Of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def seconds_by_method(rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, float]]:
    """(layer, threads) -> method -> seconds."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        found.setdefault((row["layer"], row["threads"]), {})[row["method"]] = row["seconds"]
    return found
