"""Layer: a problem on a device with its operands and its expected result; and our kernels as contestants for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

from benchmarks.common.contest import Contestant
from benchmarks.common.progress import say
from seqtune.data.record import Status
from seqtune.errors import SeqtuneError

from .problem_sets import NCHW, PROPOSAL, ProblemSet, copies_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.operations.operation import Operands
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.measuring.runner import Measurer
    from seqtune.tuner.measuring.timing import Expected

RELU6 = 6.0


@dataclass(frozen=True)
class Layer:
    """A problem with its operands; what computes it must reach the expected result."""

    problem: Problem
    threads: int
    operands: Operands
    expected: Expected
    relu6: bool = False  # ReLU6 replaces the problem's ReLU
    copies: int = 1  # copies of the weights; each call takes the next one

    @classmethod
    def of(cls, problem: Problem, threads: int, problem_set: ProblemSet) -> Layer:
        """Prepare a problem of a set."""
        from seqtune.tuner.measuring.timing import prepare

        operands, expected = prepare(problem)
        relu6 = problem_set.relu6 and problem["activation"] == "relu"
        return cls(problem, threads, operands, with_relu6(expected) if relu6 else expected, relu6,
                   copies_of(problem) if problem_set.proposals else 1)

    def over_copies(self, bind: Callable[[NDArray[Any]], Callable[[], Any]]) -> Callable[[], Any]:
        """Bind a method to each copy of the weights; each call takes the next copy."""
        following = cycle([bind(self.operands["weights"].copy()) for _ in range(self.copies)])
        return lambda: next(following)()

    def as_array(self, y: Any) -> NDArray[Any]:
        """The result of a method, a tensor or an array, in the problem's layout; images of PyTorch are NCHW."""
        import numpy as np

        if self.problem.type == "conv2d" and self.problem["layout"] == "NHWC":
            return np.ascontiguousarray(np.asarray(y).transpose(0, 2, 3, 1))
        return np.asarray(y)

    def checked(self, run: Callable[[], NDArray[Any]], name: str) -> float:
        """Compute a result in the problem's layout and return its error. Raises SeqtuneError if it is too large."""
        error = self.expected.error(run())
        if not error <= self.expected.tolerance:
            raise SeqtuneError(f"{name} computes a wrong result: error {error:.1e}, allowed "
                               f"{self.expected.tolerance:.1e}")
        return error


@dataclass(frozen=True)
class OurKernel:
    """A configuration of ours for a problem on a device, chosen before the contest."""

    method: str
    problem: Problem
    device: Device
    configuration: Configuration

    @property
    def details(self) -> dict[str, object]:
        """Further columns of its rows."""
        return {"kernel": self.configuration.kernel, "configuration": dict(self.configuration.settings)}


def chosen_kernels(problem_set: ProblemSet, problem: Problem, device: Device, first: bool, journal: Journal,
                   trials: int, measurer: Measurer) -> list[OurKernel]:
    """Choose our kernels for a problem: predictions, or the best of each family that a search finds.

    On other devices than the `first`, the methods' names begin with the device's.
    """
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.registry import kernels_for

    if problem_set.proposals:
        from seqtune.api import predict

        candidates = predict(problem, device, problem_set.proposals).candidates
        return [OurKernel(f"{PROPOSAL}{number}", problem, device, candidate.configuration)
                for number, candidate in enumerate(candidates, 1)]
    kernels = []
    for layout in ("NHWC", "NCHW") if problem_set.nchw else ("",):
        converted = Problem.make("conv2d", **{**dict(problem.features), "layout": layout}) if layout else problem
        for family in kernels_for(converted, device):
            method = NCHW * (layout == "NCHW") + f"{device.name} " * (not first) + family.name
            kernels.append(OurKernel(method, converted, device, searched(
                converted, device, family, journal, trials, measurer)))
    return kernels


def searched(problem: Problem, device: Device, family: Kernel, journal: Journal, trials: int,
             measurer: Measurer) -> Configuration:
    """Search a kernel family and return its best configuration. Raises SeqtuneError if no configuration ran."""
    from seqtune.kernels.task import Task
    from seqtune.tuner.run.local_run import tune
    from seqtune.tuner.run.plan import Budget, TuningOptions

    result = tune(Task.of(problem, device, [family]), journal, measurer, Budget(trials=trials), TuningOptions("local"))
    if result.configuration is None:
        raise SeqtuneError(f"no configuration of {family.name} ran {problem.brief()} on {device.name}")
    say(f"{device.name} {problem.brief()}: {family.name} {result.configuration.brief()}, {result.done} trials, "
        f"{result.resumed} of them from the journal")
    return result.configuration


def our_contestant(kernel: OurKernel, layer: Layer, stack: ExitStack) -> Contestant:
    """Our kernel as a contestant, whose resources close with `stack`. Raises SeqtuneError if its result is wrong."""
    make = _on_pytorch_memory if kernel.device.backend == "llvm" else _between_buffers
    contestant = make(kernel, layer, stack)
    return replace(contestant, details=kernel.details)


def _on_pytorch_memory(kernel: OurKernel, layer: Layer, stack: ExitStack) -> Contestant:
    """An llvm kernel on the OpenMP threads of PyTorch; like a normal call, it allocates new memory for each result."""
    import torch

    from seqtune.kernels.llvm.fusion import NONE, Fusion
    from seqtune.kernels.llvm.text.formula import Formula
    from seqtune.networks.program.assembly import Program
    from seqtune.networks.program.bound_kernels import X, Y
    from seqtune.networks.program.device_threads import binder_of

    binder = binder_of(kernel.device)
    fusion = Fusion(Formula.of_activation("relu6")) if layer.relu6 else NONE
    x, y_like = torch.from_numpy(layer.operands["x"].copy()), torch.from_numpy(layer.expected.y.copy())

    def bound(weights: NDArray[Any]) -> Any:
        return binder.bind(kernel.problem, kernel.configuration, weights, layer.operands.get("bias"), fusion)

    def call_of(weights: NDArray[Any]) -> Callable[[], None]:
        own = bound(weights)

        def call() -> None:
            y = torch.empty_like(y_like)
            own(x.data_ptr(), y.data_ptr())

        return call

    single, kept = bound(layer.operands["weights"]), torch.empty_like(y_like)
    program = Program(binder.threads, [single], [], [], [])

    def result() -> NDArray[Any]:
        dtype = y_like.dtype
        y = torch.full_like(y_like, math.nan if dtype.is_floating_point else torch.iinfo(dtype).min)
        single(x.data_ptr(), y.data_ptr())
        return y.numpy()

    def step() -> float:
        single.job[X], single.job[Y] = x.data_ptr(), kept.data_ptr()
        return program.time(0)

    error = layer.checked(result, kernel.configuration.brief())
    return Contestant(kernel.method, layer.over_copies(call_of), error, step=step)


def _between_buffers(kernel: OurKernel, layer: Layer, stack: ExitStack) -> Contestant:
    """A kernel of another backend, from its launch to its end, between existing buffers."""
    from seqtune.kernels.registry import kernel as family
    from seqtune.tuner.backends.backend import open_backend
    from seqtune.tuner.measuring.timing import check

    backend = open_backend(kernel.device)
    stack.callback(backend.close)
    executable = backend.build(kernel.problem, family(kernel.configuration.kernel), kernel.configuration)
    stack.callback(executable.close)
    checked, _ = check(executable, layer.operands, layer.expected)
    if checked.status is not Status.CORRECT or checked.error is None:
        raise SeqtuneError(f"{kernel.configuration.brief()} on {kernel.device.name}: {checked.message}")
    return Contestant(kernel.method, executable.run, checked.error)


def with_relu6(expected: Expected) -> Expected:
    """The expected result with ReLU6 in place of the problem's activation."""
    import numpy as np

    y = np.clip(expected.y, 0.0, RELU6)
    return replace(expected, y=y, scale=float(y.max()) or 1.0)
