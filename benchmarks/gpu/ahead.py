"""Ahead: the next problems' configurations, chosen and compiled in threads while the device measures.

A worker compiles one kernel after the other, which takes longer than to measure it; here all cores compile into the
cache that the worker reads. Choosing takes as long as to measure a few configurations.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.gpu.day import Day
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import KernelSource, implementation_of
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.tuner.backends.backend import BuildError

Plan = tuple[Configuration, ...]
LONGEST_WAIT = 600.0  # seconds; a day without slices has no end


class KernelsAhead:
    """Compiles kernels of a cuda device on all cores; does nothing for others, and in a dry run."""

    def __init__(self, day: Day, device: Device) -> None:
        from seqtune.tuner.backends.cuda.compiler import CubinCompiler

        self.day, self.device = day, device
        self._compiler = CubinCompiler(device) if device.backend == "cuda" and not day.dry else None
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1)
        self._started: dict[KernelSource, Future[None]] = {}

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[None]]:
        """Begin to compile what the configurations need; each source is compiled once."""
        if self._compiler is None:
            return []
        sources = [implementation_of(kernel(configuration.kernel)).source(problem, self.device, configuration)
                   for configuration in configurations]
        for source in sources:
            if source not in self._started:
                self._started[source] = self._threads.submit(self._compile, source)
        return [self._started[source] for source in dict.fromkeys(sources)]

    def finish(self, compiling: Sequence[Future[None]]) -> None:
        """Wait for kernels, at most until the slice's time is up. Failures are the worker's to meet and to record."""
        wait(compiling, timeout=min(LONGEST_WAIT, self.day.left))

    def stop(self) -> None:
        """Give up what is not being compiled yet."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compile(self, source: KernelSource) -> None:
        assert self._compiler is not None
        with suppress(BuildError):
            self._compiler.compile(source)


class PlansAhead:
    """Chooses the configurations of problems, in the order in which they will be asked for, and compiles them."""

    def __init__(self, kernels: KernelsAhead, choose: Callable[[Problem], Plan]) -> None:
        self.plans: dict[Problem, Plan] = {}
        self._kernels, self._choose = kernels, choose
        self._thread = ThreadPoolExecutor(1)
        self._waiting: dict[Problem, Future[list[Future[None]]]] = {}

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

    def _prepare(self, problem: Problem, most: int) -> list[Future[None]]:
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
