"""CLBlastExecutable: one problem's buffers and the call of CLBlast that runs one configuration on them."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from seqtune.kernels.implementation import Array
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage

from ..backend import BuildError, LaunchError, wall_clock
from ..opencl.programs import error_line
from .calls import CLBlastCalls, parameter_sets
from .shared_library import BUILD_FAILED, CLBlastError

CANARY = np.uint32(0x7FC0CAFE)  # a NaN that no kernel computes
MARGIN = 1024  # floats of canary on each side of every buffer; a multiple of any device's alignment


class CLBlastExecutable:
    """A configuration of CLBlast with a problem's buffers; see `seqtune.tuner.backends.backend.Executable`.

    The constructor calls once, which builds the program. Raises BuildError, LaunchError or UnavailableError.
    """

    def __init__(self, backend: Any, problem: Problem, configuration: Configuration) -> None:
        begin = time.perf_counter()
        self.backend, self.problem = backend, problem
        self.calls = CLBlastCalls(backend.queue)
        self.parameters = parameter_sets(configuration)
        self.resources: ResourceUsage | None = None
        work, cl = operation(problem.type), backend.cl
        self.shape = work.output(problem)
        self.sizes = {name: math.prod(shape) for name, shape in work.operands(problem).items()}
        self.sizes["y"] = math.prod(self.shape)
        self.transposed = problem["trans_a"] == "yes", problem["trans_b"] == "yes"
        self.whole: dict[str, Any] = {}
        self.inner: dict[str, Any] = {}
        try:
            for name, size in self.sizes.items():
                self.whole[name] = cl.Buffer(backend.context, cl.mem_flags.READ_WRITE, 4 * (size + 2 * MARGIN))
                self._fill(name, 0, size + 2 * MARGIN, np.uint32(0))
                self.inner[name] = self.whole[name].get_sub_region(4 * MARGIN, 4 * size)
            self.run()
        except cl.Error as error:
            self.close()
            raise LaunchError(error_line(error)) from None
        except (BuildError, LaunchError):
            self.close()
            raise
        self.build_seconds = time.perf_counter() - begin

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers."""
        for name, array in operands.items():
            self.backend.cl.enqueue_copy(self.backend.queue, self.inner[name], np.ascontiguousarray(array, np.float32))
        self.backend.queue.finish()

    def poison(self) -> None:
        """Fill the output with NaN, and reset the canaries around every buffer."""
        for name, size in self.sizes.items():
            if name == "y":
                self._fill(name, 0, size + 2 * MARGIN, CANARY)
            else:
                self._fill(name, 0, MARGIN, CANARY)
                self._fill(name, MARGIN + size, MARGIN, CANARY)
        self.backend.queue.finish()

    def _fill(self, name: str, begin: int, count: int, pattern: np.uint32) -> None:
        self.backend.cl.enqueue_fill_buffer(self.backend.queue, self.whole[name], pattern, 4 * begin, 4 * count)

    def run(self) -> None:
        """Call once and wait for the end. Raises LaunchError, or BuildError where the program does not build."""
        cl, queue, size = self.backend.cl, self.backend.queue, self.problem.size
        try:
            self.calls.select(self.parameters)
            self.calls.call(self.transposed, (size("m"), size("n"), size("k")), (1.0, 0.0),
                            (self.inner["x"].int_ptr, self.inner["weights"].int_ptr, self.inner["y"].int_ptr))
            queue.finish()
        except CLBlastError as error:
            raise (BuildError if error.status == BUILD_FAILED else LaunchError)(str(error)) from None
        except cl.Error as error:
            raise LaunchError(error_line(error)) from None

    def time(self, launches: int) -> float:
        """Call so many times; returns the seconds by the wall clock, without the time of setting the parameters."""
        try:
            changed = self.calls.select(self.parameters)
        except CLBlastError as error:
            raise LaunchError(str(error)) from None
        if changed:
            self.run()  # looks the program up again
        return wall_clock(self.run, launches)

    def output(self) -> Array:
        """A copy of the output, in the problem's shape and layout."""
        y = np.empty(self.shape, np.float32)
        self.backend.cl.enqueue_copy(self.backend.queue, y, self.inner["y"])
        return y

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        margin = np.empty(MARGIN, np.uint32)
        for name, size in self.sizes.items():
            for begin in (0, MARGIN + size):
                self.backend.cl.enqueue_copy(self.backend.queue, margin, self.whole[name], src_offset=4 * begin)
                if (margin != CANARY).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        for buffer in (*self.inner.values(), *self.whole.values()):
            buffer.release()
        self.inner, self.whole = {}, {}
