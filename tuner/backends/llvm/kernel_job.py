"""KernelJob: a launch of a compiled llvm kernel on arrays at addresses that may change from run to run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS

from .compiler import CompiledModule
from .threads import make_job, phases_of


class KernelJob:
    """A job of `Threads`. `bind` writes its memory and the threads read it, so one caller uses it at a time."""

    def __init__(self, module: CompiledModule, launch: Launch) -> None:
        self._module = module  # its code lives as long as the job
        self._arguments = np.array(launch.arguments, np.int64)
        self._job = make_job((0,) * (MOST_OPERANDS + 2), self._arguments, phases_of(launch, module.address))
        self.address = int(self._job.ctypes.data)

    def bind(self, operands: Sequence[int], y: int, workspace: int) -> None:
        """Set the addresses of the operands, in the operation's order, of the output and of the workspace."""
        further = operands[MOST_OPERANDS:]
        for index, address in enumerate(operands[:MOST_OPERANDS]):
            self._job[index] = address
        self._job[MOST_OPERANDS], self._job[MOST_OPERANDS + 1] = y, workspace
        if further:
            self._arguments[len(self._arguments) - len(further):] = further
