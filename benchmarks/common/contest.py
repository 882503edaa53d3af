"""Contests of the kernel benchmarks: our kernels and PyTorch's operations compute one problem in turns, in one process.

Our kernels are chosen before the contest: a search in another process measures `--trials` configurations per kernel
family and stores them in a journal; then the best configuration of each family is built again and timed. Every
contestant packs its constant operand before the contest if its API allows that, and its input is in memory already.
PyTorch and our llvm kernels allocate new memory for each result, as a normal call does.

Each round takes one sample of every contestant in a new random order; the median of the levelled rounds counts
(`tuner/measuring/comparison.py`). A sample repeats the call for some milliseconds, after a few calls that are not
counted, because idle threads may sleep. Our kernels run on
the OpenMP threads of PyTorch, so that no threads of another pool spin and disturb either side. An error is
max|difference| / max|reference| with a reference in float64; a result with a larger error than the problem allows ends
the program.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks.common.report import Row
from seqtune.errors import SeqtuneError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from seqtune.data.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.networks.program.bound_kernels import KernelBinder
    from seqtune.tuner.measuring.runner import Measurer
    from seqtune.tuner.measuring.timing import Expected

SAMPLE_SECONDS = 2e-3
WARM_UP_SECONDS = 5e-4
RELU6 = 6.0


@dataclass(frozen=True)
class Contestant:
    """One method that computes a problem; `run` computes it once."""

    method: str
    run: Callable[[], object]
    error: float
    details: Mapping[str, Any] = field(default_factory=dict)  # further columns of its rows
    step: Callable[[], float] | None = None  # launches our kernel once, as a program does, and returns its seconds


def take_turns(contestants: Sequence[Contestant], rounds: int, rest: float = 0.0,
               warm_up: float = WARM_UP_SECONDS) -> dict[str, float]:
    """Time the contestants in rounds and return the typical seconds by method.

    Before each turn the program sleeps for `rest` seconds, then runs the contestant for `warm_up` seconds.
    """
    from seqtune.tuner.measuring.comparison import typical
    from seqtune.tuner.measuring.timed_calls import time_calls

    return typical(time_calls({contestant.method: contestant.run for contestant in contestants}, rounds, SAMPLE_SECONDS,
                              warm_up, rest))


def rows_of(label: str, threads: int, contestants: Sequence[Contestant], seconds: Mapping[str, float],
            flop: int) -> list[Row]:
    """Make a row for each contestant."""
    return [{"layer": label, "threads": threads, "method": contestant.method, "seconds": seconds[contestant.method],
             "gflops": flop / seconds[contestant.method] / 1e9, "error": contestant.error,
             **contestant.details} for contestant in contestants]


def searched(problem: Problem, device: Device, family: Kernel, journal: Journal, trials: int,
             measurer: Measurer) -> Configuration:
    """Search a kernel family and return its best configuration. Raises SeqtuneError if no configuration ran."""
    from seqtune.kernels.task import Task
    from seqtune.tuner.tune import Budget, TuningOptions, tune

    result = tune(Task.of(problem, device, [family]), journal, measurer, Budget(trials=trials), TuningOptions("local"))
    if result.configuration is None:
        raise SeqtuneError(f"no configuration of {family.name} ran {problem.brief()} on {device.name}")
    print(f"{device.name} {problem.brief()}: {family.name} {result.configuration.brief()}, {result.done} trials, "
          f"{result.resumed} of them from the journal", file=sys.stderr, flush=True)
    return result.configuration


def tensor(array: NDArray[np.float32]) -> Any:
    """Copy an array to a tensor; the operands themselves are read-only."""
    import torch

    return torch.from_numpy(array.copy())


def checked(expected: Expected, run: Callable[[], Any], name: str) -> float:
    """Compute a result in the problem's layout and return its error. Raises SeqtuneError if it is too large."""
    error = expected.error(run())
    if not error <= expected.tolerance:
        raise SeqtuneError(f"{name} computes a wrong result: error {error:.1e}, allowed {expected.tolerance:.1e}")
    return error


def with_relu6(expected: Expected) -> Expected:
    """The expected result with ReLU6 in place of the problem's activation."""
    import numpy as np

    y = np.clip(expected.y, 0.0, RELU6)
    return replace(expected, y=y, scale=float(y.max()) or 1.0)


def our_contestant(binder: KernelBinder, problem: Problem, operands: Operands, expected: Expected,
                   configuration: Configuration, method: str, relu6: bool = False) -> Contestant:
    """Make a contestant of a configuration, on PyTorch's memory; `relu6` replaces the problem's activation.

    Raises SeqtuneError if its result is wrong.
    """
    import torch

    from seqtune.kernels.llvm.fusion import NONE, Fusion
    from seqtune.kernels.llvm.text.formula import Formula
    from seqtune.networks.program.bound_kernels import X, Y
    from seqtune.networks.program.program import Program

    kernel = binder.bind(problem, configuration, operands["weights"], operands.get("bias"),
                         Fusion(Formula.of_activation("relu6")) if relu6 else NONE)
    x, y_like = tensor(operands["x"]), tensor(expected.y)
    program, kept = Program(binder.threads, [kernel], [], [], []), torch.empty_like(y_like)

    def run() -> None:
        y = torch.empty_like(y_like)
        kernel(x.data_ptr(), y.data_ptr())

    def result() -> Any:
        dtype = y_like.dtype
        y = torch.full_like(y_like, math.nan if dtype.is_floating_point else torch.iinfo(dtype).min)
        kernel(x.data_ptr(), y.data_ptr())
        return y.numpy()

    def step() -> float:
        kernel.job[X], kernel.job[Y] = x.data_ptr(), kept.data_ptr()
        return program.time(0)

    return Contestant(method, run, checked(expected, result, configuration.brief()),
                      {"configuration": dict(configuration.settings)}, step)


def convolution_contestants(problem: Problem, operands: Operands, expected: Expected,
                            relu6: bool = False) -> list[Contestant]:
    """Make PyTorch's contestants in NHWC: oneDNN's convolution with packed weights, and F.conv2d in both formats.

    The convolution's bias and, with `relu6`, ReLU6 belong to it.
    """
    import torch
    from torch.nn.functional import conv2d, hardtanh_

    stride, padding, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                 for name in ("stride", "pad", "dilation"))
    groups, last = problem.size("groups"), torch.channels_last
    x, weights = tensor(operands["x"]).permute(0, 3, 1, 2), tensor(operands["weights"])  # NHWC memory is channels_last
    plain, weights_last = x.contiguous(), weights.contiguous(memory_format=last)
    reorder: Any = torch._C._nn.mkldnn_reorder_conv2d_weight
    packed = reorder(weights.to_mkldnn(), padding, stride, dilation, groups, list(x.shape))
    pointwise = torch.ops.mkldnn._convolution_pointwise
    bias = tensor(operands["bias"]) if "bias" in operands else None
    activation: tuple[Any, ...] = ("hardtanh", [0.0, RELU6], "") if relu6 else ("none", [], "")

    def activated(y: Any) -> Any:
        return hardtanh_(y, 0.0, RELU6) if relu6 else y

    runs: dict[str, Callable[[], Any]] = {
        "onednn": lambda: pointwise(x, packed, bias, padding, stride, dilation, groups, *activation),
        "conv2d_channels_last": lambda: activated(
            conv2d(x, weights_last, bias, stride, padding, dilation, groups)),
        "conv2d_nchw": lambda: activated(conv2d(plain, weights, bias, stride, padding, dilation, groups))}

    def result(run: Callable[[], Any]) -> Any:
        return run().permute(0, 2, 3, 1).contiguous().numpy()

    return [Contestant(name, run, checked(expected, partial(result, run), name)) for name, run in runs.items()]


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(map(math.log, values)) / len(values))


def seconds_by_method(rows: Sequence[Row]) -> dict[tuple[str, int], dict[str, float]]:
    """The seconds of a contest: (layer, threads) -> method -> seconds."""
    by_layer: dict[tuple[str, int], dict[str, float]] = {}
    for row in rows:
        by_layer.setdefault((row["layer"], row["threads"]), {})[row["method"]] = row["seconds"]
    return by_layer
