"""Program: kernels that one call runs one after the other, on memory that was planned before.

Intermediate results lie in one block of memory. Only the addresses of operands and results change from call to call:
the program writes them where the kernels read them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .bound_kernels import BoundKernel, ThreadPool


@dataclass(frozen=True, slots=True)
class Slot:
    """A word that holds an address: `array[index]` is the address of a buffer plus `offset` bytes."""

    array: NDArray[np.int64]
    index: int
    offset: int = 0

    def write(self, address: int) -> None:
        """Make the word point into the buffer at this address."""
        self.array[self.index] = address + self.offset


class Program:
    """Kernels in the order of their execution; `operands` and `results` are the slots of each outer buffer.

    `memory` is kept alive: constants and intermediate results, into which the kernels' other slots point.
    """

    def __init__(self, threads: ThreadPool, kernels: Sequence[BoundKernel], operands: Sequence[Sequence[Slot]],
                 results: Sequence[Sequence[Slot]], memory: Sequence[object]) -> None:
        self._threads = threads
        self._kernels = list(kernels)
        self.memory = list(memory)
        self._jobs = np.array([kernel.address for kernel in kernels], np.int64)
        self._slots = [list(slots) for slots in (*operands, *results)]

    def __len__(self) -> int:
        return len(self._kernels)

    def run(self, operands: Sequence[int], results: Sequence[int]) -> None:
        """Run all kernels; the numbers are the addresses of the outer buffers. One call at a time."""
        for address, slots in zip((*operands, *results), self._slots, strict=True):
            for slot in slots:
                slot.write(address)
        self._threads.run_all(self._jobs)

    def time(self, number: int) -> float:
        """Run one kernel with the addresses of the last call and return its seconds."""
        job = self._jobs[number:number + 1]
        begin = time.perf_counter()
        self._threads.run_all(job)
        return time.perf_counter() - begin
