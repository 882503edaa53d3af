"""Runner: measures through one worker process, and survives whatever a kernel does to it.

A configuration that takes too long, or takes the worker down, is recorded so; the worker is started anew and the rest
go on. A crash counts only when it repeats in a fresh worker, since an earlier kernel may have damaged the memory.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Protocol

from seqtune.data.record import Measurement
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import OPERATIONS
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import KERNELS

from .timing import Options
from .worker_process import Message, WorkerProcess
from .worker_request import Limits, State, WorkerRequest


class Measurer(Protocol):
    """What the tuning loop and the verification need: a Runner, or records that answer in its place (replay)."""

    device: Device

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its measurement, in order, as they come."""
        ...

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """All measured in interleaved rounds of one sample each, in the given order."""
        ...


class Runner:
    """Owns the worker process of one device. Use it as a context manager, from the thread that made it.

    The worker knows this process's tables of operations and kernels, and imports from where this process does.
    `backend`, `kernels` (name -> "module:attribute") and `path` (folders to import from) add to that: the seam for a
    backend or a kernel that is not of this package.
    """

    def __init__(self, device: Device, backend: str | None = None, kernels: Mapping[str, str] | None = None,
                 path: Sequence[str] = ()) -> None:
        self.device = device
        self._hello: Message = {
            "device": device.to_json(), "backend": backend, "operations": dict(OPERATIONS),
            "kernels": {**KERNELS, **(kernels or {})}, "path": [*path, *filter(None, sys.path)]}
        self._worker: WorkerProcess | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        """Each configuration with its measurement, in order, as they come. Closing the iterator cancels the rest."""
        index, suspect = 0, -1
        while index < len(configurations):
            batch = _of_one_kernel(configurations, index)
            end = index + len(batch)
            with self._request(problem, options, {
                    "do": "measure", "kernel": batch[0].kernel, "best": None if math.isinf(best) else best,
                    "configurations": [list(configuration.settings) for configuration in batch]}) as request:
                while index < end and (measurement := request.measurement()) is not None:
                    best = min(best, measurement.seconds)
                    index += 1
                    yield configurations[index - 1], measurement
                if index == end:
                    request.finish()
            if request.state is State.DEAD and not request.fresh and suspect != index:
                suspect = index  # once more, in a fresh worker
            elif request.state in (State.LATE, State.DEAD):
                if not request.prepared:
                    raise request.unprepared()
                index += 1
                yield configurations[index - 1], request.failure()

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        """All measured in interleaved rounds of one sample each, in the given order; a crash takes out its cause."""
        measurements: dict[int, Measurement] = {}
        while len(measurements) < len(configurations):
            left = [index for index in range(len(configurations)) if index not in measurements]
            entries = [[configurations[index].kernel, list(configurations[index].settings)] for index in left]
            with self._request(problem, options, {"do": "compare", "rounds": rounds, "entries": entries}) as request:
                compared = request.comparison()
            if compared is not None:
                answers = dict(zip(left, compared, strict=True))
                damaging = {index: measurement for index, measurement in answers.items() if measurement.damaged}
                measurements.update(damaging or answers)
                if damaging:  # they may have damaged the others
                    self.close()
            elif request.at >= 0:
                measurements[left[request.at]] = request.failure()
            elif request.state is State.LATE or request.fresh:
                raise request.unprepared()
            # else once more, in a fresh worker: an earlier kernel may have damaged this one
        return [measurements[index] for index in range(len(configurations))]

    def _request(self, problem: Problem, options: Options, message: Message) -> WorkerRequest:
        """A request to a worker that is ready. Raises UnavailableError where its backend does not open."""
        if self._worker is None or not self._worker.alive:
            self._worker = WorkerProcess(self.device.name, self._hello)
        limits = Limits.of(problem, options, self._worker.build_allowance)
        return WorkerRequest(self._worker, problem, limits,
                             {**message, "problem": problem.to_json(), "options": options.to_json()})


def _of_one_kernel(configurations: Sequence[Configuration], begin: int) -> Sequence[Configuration]:
    """The longest run of configurations of one kernel from `begin` on."""
    end = begin
    while end < len(configurations) and configurations[end].kernel == configurations[begin].kernel:
        end += 1
    return configurations[begin:end]
