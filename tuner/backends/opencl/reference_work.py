"""OpenCLReferenceWork: multiply-adds on all compute units of a CPU, whose time shows at which rate it computes now."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

from seqtune.kernels.devices.device import Device

from ..backend import LaunchError
from .probe import ITEMS, OPTIONS, PASS_FLOPS, rates_text
from .programs import build, error_line

LEAST = 300e-6  # seconds of multiply-adds. A launch of PoCL takes 15 to 80 us; beside 100 us of work, that scatter
#                 looked like a slow CPU in every third run
LAUNCHES = 6  # least number of launches that take as long as the work: PoCL's on this scale, more with many threads
MOST = 3e-3  # seconds, where a launch is that slow
TRIALS = 9  # launches of which the median counts


class OpenCLReferenceWork:
    """The kernel `peak` with which the device's rate was measured, for a short time."""

    def __init__(self, cl: Any, context: Any, queue: Any, device: Device,
                 clock: Callable[[], float] = time.perf_counter) -> None:
        """Build the kernel, and measure what a launch takes. Raises BuildError or LaunchError."""
        self._cl, self._queue, self._clock = cl, queue, clock
        self._items = ITEMS * device.compute_units
        program = build(cl, context, rates_text(), OPTIONS)
        try:
            self._sums = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * (self._items + 1))
            cl.enqueue_fill_buffer(queue, self._sums, np.float32(0), 0, 4 * (self._items + 1))
            self._kernel = cl.Kernel(program, "peak")
        except cl.Error as error:
            raise LaunchError(error_line(error)) from None
        self._passes = 1
        self.seconds()  # compiles with PoCL
        launch = median(self.seconds() for _ in range(TRIALS))
        work = min(MOST, max(LEAST, LAUNCHES * launch))
        self._passes = round(work * 1e9 * device.peak_gflops / (PASS_FLOPS * self._items)) or 1
        self.expected = launch + work

    def seconds(self) -> float:
        """Do the work once, and return its time in seconds. Raises LaunchError."""
        began = self._clock()
        try:
            self._kernel(self._queue, (self._items,), (1,), self._sums, np.int32(self._passes))
            self._queue.finish()
        except self._cl.Error as error:
            raise LaunchError(error_line(error)) from None
        return self._clock() - began
