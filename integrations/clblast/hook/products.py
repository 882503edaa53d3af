"""Matrix products by CLBlast, with the parameters that are predicted for their sizes."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.api.inputs import as_problem
from seqtune.errors import DeviceError, MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.deadline import SECONDS

from ..kernels import xgemm, xgemm_direct
from ..kernels.library import KERNELS, LIBRARY

if TYPE_CHECKING:
    from ..backend.calls import CLBlastCalls, ParameterSets

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
            names = ", ".join(device.name for device in devices.values()) or "no device"
            raise DeviceError(f"the device {queue.device.name!r:.60} is not among {names}")
        _devices.update(devices)
    return _devices[address]


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


def gemm(queue: Any, a: Any, b: Any, c: Any = None, *, trans_a: bool = False, trans_b: bool = False,
         alpha: float = 1.0, beta: float = 0.0, sizes: tuple[int, int, int] | None = None,
         checkpoint: str | Path = str(LIBRARY.checkpoint)) -> Any:
    """Enqueue C = alpha A B + beta C in fp32 with the parameters predicted for these sizes; returns C.

    `a`, `b` and `c` are pyopencl arrays of float32, stored by rows: A is (m, k), or (k, m) with `trans_a`; B is (k, n),
    or (n, k) with `trans_b`; C is (m, n) and is made if it is None. They may be buffers with `sizes` (m, n, k); then
    `c` must be given. The call returns when the product is enqueued. The first call of a size builds its program.
    CLBlast's parameters are set for the whole process. Raises MisuseError for shapes that do not fit, SeqtuneError if
    CLBlast refuses, UnavailableError if it is not installed.
    """
    arrays = sizes is None
    m, n, k = _sizes(a, b, trans_a, trans_b) if sizes is None else sizes
    if c is None:
        if not arrays:
            raise MisuseError("name the buffer `c` of the result, or give pyopencl arrays")
        import pyopencl.array

        c = pyopencl.array.empty(queue, (m, n), "float32")
    elif arrays:
        _check(c, "c")
        if c.shape != (m, n):
            raise MisuseError(f"c has the shape {c.shape}, the product {(m, n)}")
    buffers, offsets = zip(*(_memory(array, arrays) for array in (a, b, c)), strict=True)
    calls = _calls(queue)
    problem = product(m, n, k, trans_a, trans_b)
    calls.select(_settings(choice(queue, problem, checkpoint)))
    from ..backend.shared_library import CLBlastError

    try:
        calls.call((trans_a, trans_b), (m, n, k), (alpha, beta), buffers, offsets)
    except CLBlastError as error:
        raise SeqtuneError(f"{problem.brief()}: {error}; seqtune.clblast.tune measures other parameters") from None
    return c


def defaults(queue: Any) -> ParameterSets:
    """CLBlast's parameters on the queue's device, by its kernel: those of its database, before any call of `gemm`."""
    return _calls(queue).defaults()


@lru_cache(maxsize=64)
def _calls(queue: Any) -> CLBlastCalls:
    from ..backend.calls import CLBlastCalls

    return CLBlastCalls(queue)


@lru_cache(maxsize=4096)
def _settings(configuration: Configuration) -> ParameterSets:
    from ..backend.calls import parameter_sets

    return parameter_sets(configuration)


def _sizes(a: Any, b: Any, trans_a: bool, trans_b: bool) -> tuple[int, int, int]:
    """The sizes (m, n, k) of a product of two arrays. Raises MisuseError if they do not fit each other."""
    _check(a, "a")
    _check(b, "b")
    (m, k), (inner, n) = a.shape[::-1 if trans_a else 1], b.shape[::-1 if trans_b else 1]
    if k != inner:
        raise MisuseError(f"A has {k} columns and B {inner} rows; check the shapes {a.shape} and {b.shape}")
    return int(m), int(n), int(k)


def _check(array: Any, name: str) -> None:
    if getattr(array, "ndim", 0) != 2 or str(getattr(array, "dtype", "")) != "float32":
        raise MisuseError(f"{name} must be a pyopencl array of float32 with two axes, or a buffer with `sizes`")
    if not array.flags.c_contiguous:
        raise MisuseError(f"{name} must be stored by rows without gaps; copy it first")


def _memory(array: Any, is_array: bool) -> tuple[int, int]:
    """The address of an array's buffer and its offset there, in floats."""
    return (int(array.base_data.int_ptr), int(array.offset) // 4) if is_array else (int(array.int_ptr), 0)
