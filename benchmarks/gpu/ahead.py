"""Ahead: the next problems' configurations, chosen and compiled in threads while the device measures.

Choosing takes as long as to measure a few configurations, and compiling longer
(`seqtune.tuner.backends.cuda.cubins_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from benchmarks.gpu.day import Day
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.cuda.cubins_ahead import CubinsAhead

Plan = tuple[Configuration, ...]
LONGEST_WAIT = 600.0  # seconds; a day without slices has no end


class KernelsAhead:
    """Compiles kernels of a cuda device on all cores; does nothing for others, and in a dry run."""

    def __init__(self, day: Day, device: Device) -> None:
        self.day = day
        self._cubins = CubinsAhead(device) if device.backend == "cuda" and not day.dry else None

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[bool]]:
        """Begin to compile what the configurations need; each source is compiled once."""
        return [] if self._cubins is None else self._cubins.start(problem, configurations)

    def finish(self, compiling: Sequence[Future[bool]]) -> None:
        """Wait for kernels, at most until the slice's time is up. Failures are the worker's to meet and to record."""
        wait(compiling, timeout=min(LONGEST_WAIT, self.day.left))

    def stop(self) -> None:
        """Give up what is not compiled yet."""
        if self._cubins is not None:
            self._cubins.stop()


class PlansAhead:
    """Chooses the configurations of problems, in the order in which they will be asked for, and compiles them."""

    def __init__(self, kernels: KernelsAhead, choose: Callable[[Problem], Plan]) -> None:
        self.plans: dict[Problem, Plan] = {}
        self._kernels, self._choose = kernels, choose
        self._thread = ThreadPoolExecutor(1)
        self._waiting: dict[Problem, Future[list[Future[bool]]]] = {}

    def start(self, problems: Sequence[Problem], most: int) -> None:
        """Begin with these problems; the first `most` configurations of each are compiled."""
        self._waiting = {problem: self._thread.submit(self._prepare, problem, most) for problem in problems}

    def plan(self, problem: Problem) -> Plan:
        """The configurations of a problem, when they are compiled. Raises what choosing them has raised."""
        self._kernels.finish(self._waiting[problem].result())
        return self.plans[problem]

    def stop(self) -> None:
        """Give up what is not begun yet."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _prepare(self, problem: Problem, most: int) -> list[Future[bool]]:
        if problem not in self.plans:
            self.plans[problem] = self._choose(problem)
        return self._kernels.start(problem, self.plans[problem][:most])


@contextmanager
def stopping(*ahead: Any) -> Iterator[None]:
    """Stop all at the end, the first one first."""
    try:
        yield
    finally:
        for part in ahead:
            part.stop()
