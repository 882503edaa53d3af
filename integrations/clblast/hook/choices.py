"""The configuration of CLBlast for each size on each device of this process: predicted, tuned or chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from seqtune.api.inputs import as_problem
from seqtune.errors import DeviceError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.deadline import SECONDS

from ..kernels import xgemm, xgemm_direct
from ..kernels.library import KERNELS, LIBRARY

FAMILIES = (xgemm.KERNEL, xgemm_direct.KERNEL)
PROPOSALS = 5  # proposals that `tune` measures beside CLBlast's own default

_devices: dict[int, Device] = {}  # address of pyopencl's device -> facts
_choices: dict[tuple[int, str | Path, Problem], Configuration] = {}


def device_of(queue: Any) -> Device:
    """The facts of a queue's device. Raises DeviceError if discovery does not list it."""
    from seqtune.tuner.backends.opencl import discovery

    address = int(queue.device.int_ptr)
    if address not in _devices:
        devices = {int(discovery.handle(device.name).int_ptr): device for device in discovery.devices()}
        if address not in devices:
            raise DeviceError(f"the device {queue.device.name!r:.60} is not among {', '.join(_names(devices))}")
        _devices.update(devices)
    return _devices[address]


def _names(devices: dict[int, Device]) -> list[str]:
    return [device.name for device in devices.values()] or ["no device"]


def product(m: int, n: int, k: int, trans_a: bool = False, trans_b: bool = False) -> Problem:
    """The matrix product C[m,n] = A[m,k] B[k,n] in fp32. Raises ProblemError."""
    words = ("no", "yes")
    return Problem.make("gemm", m=m, n=n, k=k, trans_a=words[trans_a], trans_b=words[trans_b])


def parameters(queue: Any, problem: object, *, checkpoint: str | Path = str(LIBRARY.checkpoint)) -> Configuration:
    """The configuration that `gemm` uses for a problem on the queue's device: chosen, tuned or else predicted.

    `problem` is a Problem or text such as `gemm m=64 n=256 k=128`. It is predicted once. Raises CheckpointError,
    DeviceError, ProblemError, or KernelError for a product that CLBlast does not compute in this way.
    """
    return choice(queue, as_problem(problem), checkpoint)


def choice(queue: Any, problem: Problem, checkpoint: str | Path = str(LIBRARY.checkpoint)) -> Configuration:
    """The same as `parameters`. Every call of `gemm` comes here, so a known answer must take microseconds."""
    key = int(queue.device.int_ptr), checkpoint, problem
    if key not in _choices:
        _choices[key] = _proposals(problem, device_of(queue), checkpoint, 1)[0]
    return _choices[key]


def choose(queue: Any, problem: object, configuration: Configuration, *,
           checkpoint: str | Path = str(LIBRARY.checkpoint)) -> None:
    """Let `gemm` use this configuration for a problem on the queue's device. Raises ConfigurationError.

    Values outside the declared space are refused: CLBlast itself checks none.
    """
    problem = as_problem(problem)
    Task.of(problem, device_of(queue), FAMILIES).number(configuration)
    _choices[int(queue.device.int_ptr), checkpoint, problem] = configuration


def tune(queue: Any, problem: object, *, seconds: float = SECONDS,
         checkpoint: str | Path = str(LIBRARY.checkpoint)) -> Configuration:
    """Measure the first predictions and CLBlast's default for a problem, and let `gemm` use the fastest one.

    A worker process measures, so a configuration may crash or hang. CLBlast's default is replaced only by one that is
    significantly faster. Raises SeqtuneError if nothing ran, or if the problem needs more time than `seconds`.
    """
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.measuring.verification import OverBudget, verify

    problem, device = as_problem(problem), device_of(queue)
    task = Task.of(problem, device, FAMILIES)
    candidates = _proposals(problem, device, checkpoint, PROPOSALS)
    with Runner(device, kernels=KERNELS) as runner:
        try:
            verdict = verify(runner, problem, candidates, task.default, seconds)
        except OverBudget as over:
            raise SeqtuneError(f"{problem.brief()}: {over}; give more than {seconds:g} seconds") from None
    if verdict.winner is None:
        failed = verdict.measurements[task.default]
        raise SeqtuneError(f"nothing ran on {device.name}: not even CLBlast's default ({failed.message})")
    _choices[int(queue.device.int_ptr), checkpoint, problem] = verdict.winner
    return verdict.winner


def _proposals(problem: Problem, device: Device, checkpoint: str | Path, count: int) -> list[Configuration]:
    from seqtune.predictor.answering import Answering

    return list(Answering.of(Task.of(problem, device, FAMILIES), checkpoint).propose(count))
