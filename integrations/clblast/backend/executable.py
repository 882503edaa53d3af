"""CLBlastExecutable: one problem's buffers and the call of CLBlast that runs one configuration on them."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.tuner.backends.backend import BuildError, LaunchError, wall_clock
from seqtune.tuner.backends.guarded_buffers import GuardedBuffers
from seqtune.tuner.backends.opencl.programs import error_line

from .calls import CLBlastCalls, parameter_sets
from .shared_library import BUILD_FAILED, CLBlastError


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
        work = operation(problem.type)
        self.shape = work.output(problem)
        shapes = {**work.operands(problem), "y": self.shape}
        self.transposed = problem["trans_a"] == "yes", problem["trans_b"] == "yes"
        self.buffers = GuardedBuffers(backend.calls, {name: 4 * math.prod(shape) for name, shape in shapes.items()},
                                      ["y"])
        try:
            self.run()
        except (BuildError, LaunchError):
            self.close()
            raise
        self.build_seconds = time.perf_counter() - begin

    def load(self, operands: Operands) -> None:
        """Copy the operands into the buffers."""
        for name, array in operands.items():
            self.buffers.write(name, np.ascontiguousarray(array, np.float32))
        self.backend.queue.finish()

    def poison(self) -> None:
        """Fill the output with NaN, and reset the canaries around every buffer."""
        self.buffers.poison()

    def run(self) -> None:
        """Call once and wait for the end. Raises LaunchError, or BuildError where the program does not build."""
        cl, queue, size, memory = self.backend.cl, self.backend.queue, self.problem.size, self.buffers.addresses
        try:
            self.calls.select(self.parameters)
            self.calls.call(self.transposed, (size("m"), size("n"), size("k")), (1.0, 0.0),
                            (memory["x"].int_ptr, memory["weights"].int_ptr, memory["y"].int_ptr))
            queue.finish()
        except CLBlastError as error:
            raise (BuildError if error.status == BUILD_FAILED else LaunchError)(str(error)) from None
        except cl.Error as error:
            raise LaunchError(error_line(error)) from None

    def time(self, launches: int) -> float:
        """Call `launches` times; returns the seconds by the wall clock, without the time of setting the parameters."""
        try:
            changed = self.calls.select(self.parameters)
        except CLBlastError as error:
            raise LaunchError(str(error)) from None
        if changed:
            self.run()  # looks the program up again
        return wall_clock(self.run, launches)

    def outputs(self) -> dict[str, Array]:
        """A copy of the output y, in the problem's shape and layout."""
        y = np.empty(self.shape, np.float32)
        self.buffers.read("y", y)
        return {"y": y}

    def overrun(self) -> str | None:
        """The name of a buffer that was written outside its bounds since `poison`, or None."""
        return self.buffers.overrun()

    def close(self) -> None:
        """Free the buffers."""
        self.buffers.close()
