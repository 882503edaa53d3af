"""LLVMReferenceWork: multiply-adds on all threads of a device, whose time shows at which rate the CPU computes now."""

from __future__ import annotations

import time

import numpy as np

from seqtune.kernels.devices.device import Device

from .compiler import INSTRUCTION_SETS, Compiler
from .probe import CHAINS, multiply_text
from .threads import Threads, make_job

STEPS = 6000  # some 20 us: long against waking a thread, short against the sample of a kernel


class LLVMReferenceWork:
    """The same number of multiply-adds for each of the threads. Use it from the thread that uses them."""

    def __init__(self, device: Device, compiler: Compiler, threads: Threads) -> None:
        lanes = INSTRUCTION_SETS[device.instruction_set].vector_bits // 32
        self._threads = threads
        self._module, _ = compiler.build(multiply_text(lanes))
        self._factor = np.ones(16, np.float32)
        self._sums = np.zeros(device.threads * 16 + 16, np.float32)
        self._arguments = np.array([STEPS, 1], np.int64)
        self._job = make_job((self._factor.ctypes.data, 0, 0, self._sums.ctypes.data, 0), self._arguments,
                             [(self._module.address("multiply"), device.threads, 1)])
        self.expected = 2e-9 * CHAINS * lanes * STEPS * device.threads / device.peak_gflops

    def seconds(self) -> float:
        """Do the work once, and return its time in seconds."""
        began = time.perf_counter()
        self._threads.run(self._job.ctypes.data)
        return time.perf_counter() - began
