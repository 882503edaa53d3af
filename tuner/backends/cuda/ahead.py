"""Ahead: kernels compiled in threads into the cache that workers read, before a worker asks for them.

A worker compiles one kernel after the other, which takes longer than to measure it; here all cores compile. Failures
are the worker's to meet and to record.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from seqtune.kernels.device import Device
from seqtune.kernels.implementation import KernelSource, implementation_of
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import is_registered, kernel

from ..backend import BuildError
from .compiler import CubinCompiler


class CubinsAhead:
    """Compiles our kernels for a `cuda` device on all cores; others are left to the worker, which confines them.

    Raises UnavailableError without NVRTC.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._compiler = CubinCompiler(device)
        self._threads = ThreadPoolExecutor(os.cpu_count() or 1)
        self._started: dict[KernelSource, Future[None]] = {}

    def start(self, problem: Problem, configurations: Sequence[Configuration]) -> list[Future[None]]:
        """Begin to compile what the configurations need; each source is compiled once."""
        sources = []
        for configuration in configurations:
            if is_registered(configuration.kernel) and is_ours(family := kernel(configuration.kernel)):
                with suppress(Exception):  # a mistake in a kernel's program is for the worker, which records it
                    sources.append(implementation_of(family).source(problem, self.device, configuration))
        for source in sources:
            if source not in self._started:
                self._started[source] = self._threads.submit(self._compile, source)
        return [self._started[source] for source in dict.fromkeys(sources)]

    def stop(self) -> None:
        """Give up what is not being compiled yet."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _compile(self, source: KernelSource) -> None:
        with suppress(BuildError):
            self._compiler.compile(source)


def is_ours(family: Kernel) -> bool:
    """Whether the kernel's code is in this package."""
    return isinstance(family.implementation, str) and family.implementation.startswith("seqtune.")
