"""Runner: measures in a worker process, so that a kernel that hangs or crashes does not end the caller.

A configuration that takes too long or crashes the worker gets that status, and a new worker measures the rest. A crash
counts only if it repeats in a new worker, because an earlier kernel may have damaged the memory of the old one.
When the budget of the options ends, the worker stops, or is killed where it cannot stop; earlier measurements count.

Batches are newly built, each with new buffers, and then run in rounds. Luck of addresses lasts as long as a build, so
what is compared in several batches is not decided by one lucky build.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Protocol

import numpy as np

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.libraries.messages import messages_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import check_allowed, is_registered, kernel

from ..backends.compilers import CompilerAhead, compile_all, compiler_ahead
from .deadline import Deadline, OutOfTime
from .tensor_limit import check_measurable
from .timing import Options
from .worker.message import Message
from .worker.process import WorkerProcess
from .worker.request import Limits, RequestState, WorkerRequest

MOST_LOST = 3  # workers lost to configurations that should compute the expected outputs: each may take a minute


class Measurer(Protocol):
    """Measures for the tuning loop and the verification: a Runner, or a RecordedMeasurer (replay)."""

    device: Device

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its measurement, in the given order, as soon as it is measured.

        `best` is the least time so far, in seconds; much slower configurations get fewer samples. Configurations for
        which the budget of the options has no time are left out.
        """
        ...

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Measure all in rounds of one sample each; return the measurements in the given order.

        Where the options' planned seconds end first, there are fewer rounds. Raises OutOfTime if the budget ends before
        the fewest rounds of the options.
        """
        ...


class Runner:
    """Owns the worker process of one device. Use it as a context manager, from the thread that created it.

    The worker gets the libraries in use and the import path of this process. `backend`, `kernels` (name ->
    "module:attribute") and `path` (folders to import from) add a backend or kernels from outside this package.
    `ahead` compiles for that backend before the worker does. `limits` makes the time limits of a problem.
    """

    def __init__(self, device: Device, backend: str | None = None, kernels: Mapping[str, str] | None = None,
                 path: Sequence[str] = (), ahead: CompilerAhead | None = None,
                 limits: Callable[[Problem, Options, float], Limits] = Limits.of) -> None:
        self.device, self._limits = device, limits
        self._hello: Message = {
            "device": device.to_json(), "backend": backend, "libraries": messages_in_use(),
            "kernels": dict(kernels or {}), "path": [*path, *filter(None, sys.path)]}
        self._worker: WorkerProcess | None = None
        self._failed_outputs: dict[Problem, list[str]] = {}  # why configurations could not compute expected outputs
        self._lost_workers = Counter[Problem]()  # workers that such configurations ended
        self._ahead = compiler_ahead(device) if backend is None else ahead

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def start(self) -> None:
        """Begin to start the worker process, if none is alive: it opens its backend while the caller works."""
        if self._worker is None or not self._worker.alive:
            self._worker = WorkerProcess(self.device.name, self._hello)

    def open(self, seconds: float = math.inf) -> float:
        """Wait until the worker has opened its backend; return the seconds that its builds may take in any case.

        Raises UnavailableError if it does not open, and OutOfTime if it does not do so within `seconds`.
        """
        return self._opened(seconds).build_allowance

    def close(self) -> None:
        """End the worker process, and what compiles ahead of it."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None
        if self._ahead is not None:
            self._ahead.stop()

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Yield each configuration with its measurement, in the given order. Closing the generator cancels the rest.

        It ends early when the budget of the options does.
        """
        _check(problem, configurations)
        with suppress(OutOfTime):
            yield from self._measure(problem, configurations, options, best, Deadline(options.budget))

    def _measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options, best: float,
                 deadline: Deadline) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Measure until the deadline. Raises OutOfTime where the worker does not open in time."""
        index, suspect = 0, -1
        while index < len(configurations) and not _is_over(deadline, options):
            batch = _batch_from(configurations, index)
            end = index + len(batch)
            self._compile(problem, batch, options, deadline)
            with self._request(problem, options, deadline, {
                    "do": "measure", "kernel": batch[0].kernel, "best": None if math.isinf(best) else best,
                    "configurations": [list(configuration.settings) for configuration in batch]}) as request:
                while index < end and (measurement := request.measurement()) is not None:
                    best = min(best, measurement.seconds)
                    index += 1
                    yield configurations[index - 1], measurement
                if index == end:
                    request.finish()
            if request.state is RequestState.DEAD and not request.fresh and suspect != index:
                suspect = index  # measure it once more, in a new worker
            elif request.state in (RequestState.LATE, RequestState.DEAD):
                if not request.prepared:
                    self._try_next(problem, request)
                    continue
                index += 1
                yield configurations[index - 1], request.failure()

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """Measure all in rounds of one sample each; see `Measurer`.

        A configuration that crashes the worker gets the status CRASH, and the others are compared again.
        """
        _check(problem, configurations)
        deadline = Deadline(options.budget)
        measurements: dict[int, Measurement] = {}
        while len(measurements) < len(configurations):
            remaining = [index for index in range(len(configurations)) if index not in measurements]
            entries = [[configurations[index].kernel, list(configurations[index].settings)] for index in remaining]
            with self._request(problem, options, deadline, {
                    "do": "compare", "rounds": rounds, "entries": entries}) as request:
                compared = request.comparison()
            if request.state is RequestState.OVER or (compared is not None and any(map(_is_empty, compared))):
                raise OutOfTime(f"{problem.brief()}: {options.budget:.3g} s are over before "
                                f"{len(remaining)} configurations could be compared")
            if compared is not None:
                answers = dict(zip(remaining, compared, strict=True))
                damaging = {index: measurement for index, measurement in answers.items() if measurement.damaged}
                measurements.update(damaging or answers)
                if damaging:  # these kernels may have damaged the results of the others
                    self.close()
            elif request.entry >= 0:
                measurements[remaining[request.entry]] = request.failure()
            elif request.state is RequestState.LATE or request.fresh:
                self._try_next(problem, request)
            # Otherwise compare again, in a new worker: an earlier kernel may have damaged the memory of this one.
        return [measurements[index] for index in range(len(configurations))]

    def _request(self, problem: Problem, options: Options, deadline: Deadline, message: Message) -> WorkerRequest:
        """A request to the worker, started if none is alive. The worker gets as much of the budget as is left.

        Raises UnavailableError if its backend does not open, and OutOfTime if it does not do so in time. A comparison
        waits for it until the budget ends, because it holds its fewest rounds even after the planned end.
        """
        planned = math.inf if message["do"] == "compare" else max(0.0, options.planned - deadline.elapsed)
        worker = self._opened(min(deadline.left, planned))
        limits = self._limits(problem, options, worker.build_allowance)
        left = replace(options, budget=deadline.left, planned=max(0.0, options.planned - deadline.elapsed))
        return WorkerRequest(worker, problem, limits, {
            **message, "problem": problem.to_json(), "options": left.to_json(),
            "failed": self._failed_outputs.get(problem, [])}, deadline, options.planned)

    def _try_next(self, problem: Problem, request: WorkerRequest) -> None:
        """Let another configuration compute the expected outputs after one that ended its worker.

        Raises the request's error if no configuration ended the worker, or if MOST_LOST workers were lost that way.
        """
        failed = request.failed_outputs()
        self._lost_workers[problem] += 1
        if failed is None or self._lost_workers[problem] >= MOST_LOST:
            raise request.unprepared()
        self._failed_outputs[problem] = failed

    def _compile(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                 deadline: Deadline) -> None:
        """Compile several kernels on all cores, into the cache that the worker reads; what takes too long is given up.

        Nothing is compiled beside a measurement. Raises UnavailableError if the worker's backend does not open, and
        OutOfTime if it does not do so before the deadline.
        """
        if self._ahead is None or len(configurations) < 2:  # the worker compiles a single kernel as fast
            return
        compile_all(self._ahead, problem, configurations,
                    lambda: max(options.build_seconds, self.open(deadline.left)), deadline.left)

    def _opened(self, seconds: float) -> WorkerProcess:
        self.start()
        assert self._worker is not None
        self._worker.open(seconds)
        return self._worker


def _check(problem: Problem, configurations: Sequence[Configuration]) -> None:
    """Check that the problem's tensors can be made, and that the code of the configurations' kernels may run.

    Raises MisuseError.
    """
    check_measurable(problem)
    for name in dict.fromkeys(configuration.kernel for configuration in configurations):
        if is_registered(name):
            check_allowed(kernel(name))


def _is_over(deadline: Deadline, options: Options) -> bool:
    """Whether a request that began with the deadline has reached its planned end."""
    return deadline.elapsed >= min(options.planned, deadline.seconds)


def _is_empty(measurement: Measurement) -> bool:
    """Whether a configuration was checked, but there was no time for a round."""
    return measurement.status is Status.CORRECT and not measurement.samples


def _batch_from(configurations: Sequence[Configuration], begin: int) -> Sequence[Configuration]:
    """The configurations from index `begin` on that are of the same kernel, up to the first of another kernel."""
    end = begin
    while end < len(configurations) and configurations[end].kernel == configurations[begin].kernel:
        end += 1
    return configurations[begin:end]


def compare_batch(measurer: Measurer, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                  options: Options, batch: int) -> list[Measurement]:
    """Build all configurations and run them in rounds; return the measurements in the given order.

    The number `batch` is the seed of the order in which they are built and of the orders of the rounds. A configuration
    may be given twice.
    """
    order = np.random.default_rng(batch).permutation(len(configurations)).tolist()
    compared = measurer.compare(problem, [configurations[index] for index in order], rounds,
                                replace(options, order_seed=batch))
    measured = dict(zip(order, compared, strict=True))
    return [measured[index] for index in range(len(configurations))]
