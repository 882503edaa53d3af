"""Buffers without margins: a simulator sees every access outside them, where a margin would hide it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqtune.kernels.launches.implementation import Array, Implementation
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import MOST_OPERANDS, Operands
from seqtune.kernels.operations.table import operation

if TYPE_CHECKING:
    from seqtune.kernels.kernel import Configuration, Kernel
    from seqtune.kernels.problem import Problem
    from seqtune.tuner.backends.opencl.backend import OpenCLBackend


def compute(backend: OpenCLBackend, problem: Problem, family: Kernel, configuration: Configuration,
            operands: Operands) -> Array:
    """Build and launch once. Output and workspace hold NaN before. Returns the output in the problem's shape."""
    implementation: Implementation = resolve(str(family.implementation))  # type: ignore[assignment]
    work, cl = operation(problem.type), backend.cl
    launch = implementation.launch(problem, backend.device, configuration)
    arrays = [implementation.pack(problem, backend.device, configuration, array) if name == work.constant else array
              for name, array in operands.items()]
    arrays += [np.zeros(1, np.float32)] * (MOST_OPERANDS - len(arrays))
    y = np.full(work.output(problem), np.nan, np.float32)
    arrays += [y, np.full(max(1, launch.workspace), np.nan, np.float32)]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [cl.Buffer(backend.context, flags, hostbuf=np.ascontiguousarray(array, np.float32)) for array in arrays]
    program: Any = backend.program(implementation.source(problem, backend.device, configuration))
    for phase in launch.phases:
        kernel = cl.Kernel(program, phase.entry)
        kernel.set_args(*buffers, *(np.int32(value) for value in launch.arguments))
        cl.enqueue_nd_range_kernel(backend.queue, kernel, phase.global_size, phase.local_size)
    cl.enqueue_copy(backend.queue, y, buffers[MOST_OPERANDS])
    for buffer in buffers:
        buffer.release()
    return y
