"""KernelJob: a launch of a compiled llvm kernel on arrays at addresses that may change from run to run."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS

from .compiler import CompiledModule
from .threads import make_job, phases_of

_ADDRESSES = struct.Struct(f"={MOST_OPERANDS + 2}q")  # the first words of a job


class KernelJob:
    """A job of `Threads`. `bind` writes its memory and the threads read it, so one caller uses it at a time."""

    def __init__(self, module: CompiledModule, launch: Launch) -> None:
        self._module = module  # its code lives as long as the job
        self._arguments = np.array(launch.arguments, np.int64)
        self._job = make_job((0,) * (MOST_OPERANDS + 2), self._arguments, phases_of(launch, module.address))
        self._words = self._job.data
        self.address = int(self._job.ctypes.data)

    def bind(self, operands: Sequence[int], y: int, workspace: int) -> None:
        """Set the addresses of the operands, in the operation's order, of the output and of the workspace."""
        further = operands[MOST_OPERANDS:]
        absent = (0,) * (MOST_OPERANDS - len(operands))
        _ADDRESSES.pack_into(self._words, 0, *operands[:MOST_OPERANDS], *absent, y, workspace)  # cheaper than NumPy's
        if further:
            self._arguments[len(self._arguments) - len(further):] = further
