"""GpuLaunch: what a configuration of any GPU kernel asks for at its launch, where no tile of a product is described.

A library's author declares the quantities of CONTRACT as derived quantities of the kernel. Those of other kernels are
computed from parameters whose names follow a convention: Kernel Tuner's (`block_size_x`, threads of a block along an
axis; `tile_size_x`, results of a thread along it; `size_x`, the problem) or that of CLBlast's Xgemm (`MWG` by `NWG`
results and `MDIMC` by `NDIMC` threads of a work group).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, Task

CONTRACT = ("block_threads", "thread_work", "padded_share")
AXES = "xyz"
# Added log time to expect from another maker's compiler and device. On recorded spaces of a convolution and a
# dedispersion, regressions of AMD's GPUs on NVIDIA's give 0.13 to 0.25 for a doubling of the work, 0.0 to 1.5 for
# guards and 0.3 to 0.9 for idle lanes. A third more or less hardly changes the first proposals there. Only the
# convolution on one GPU shows what guards cost: its body of 225 multiply-adds is probably unrolled with them.
DOUBLED_WORK, GUARDS, IDLE_LANES = 0.15, 0.5, 0.5
SIDES = (("MWG", "MDIMC"), ("NWG", "NDIMC"))  # results and threads of a work group along each side


@dataclass(frozen=True, eq=False)
class GpuLaunch:
    """The launches of some configurations of one space. Every array is (configuration,)."""

    block_threads: Floats  # of a block (work group)
    thread_work: Floats  # results that a thread computes
    padded_share: Floats  # results that all blocks compute, divided by the problem's: above 1, blocks overhang

    def idle_lanes(self, warp: int) -> Floats:
        """The share of the lanes of a block's warps that have no thread."""
        lanes = np.maximum(1, np.ceil(self.block_threads / warp)) * warp
        return np.asarray(1 - self.block_threads / lanes)


def penalty(task: Task, warp: int) -> Floats:
    """The additions to the log times (number,) of another maker's device, for one whose warps have `warp` threads."""
    added = np.zeros(len(task))
    for space, part in task.parts():
        launch = launches_of(space)
        if launch is not None:
            added[part] = (DOUBLED_WORK * np.log2(np.maximum(1.0, launch.thread_work))
                           + GUARDS * (launch.padded_share > 1) + IDLE_LANES * launch.idle_lanes(max(1, warp)))
    return added


def launches_of(space: SearchSpace) -> GpuLaunch | None:
    """The launches of all rows of a space; None if the kernel neither declares them nor follows a convention."""
    kernel = space.kernel
    own = {*kernel.by_name, *(name for name, _ in kernel.derived)}
    if own.issuperset(CONTRACT):
        columns = space.columns()
        return GpuLaunch(*(columns[name].astype(float) for name in CONTRACT))
    blocks = [f"block_size_{axis}" for axis in AXES if _is_number(kernel, f"block_size_{axis}")]
    if blocks:
        return _by_axes(space, space.columns(), blocks)
    if all(_is_number(kernel, name) for side in SIDES for name in side):
        columns = space.columns()
        (results_m, threads_m), (results_n, threads_n) = ((columns[name].astype(float) for name in side)
                                                          for side in SIDES)
        block = threads_m * threads_n
        return GpuLaunch(block, results_m * results_n / np.maximum(1, block), np.ones(len(space)))
    return None


def _is_number(kernel: Kernel, name: str) -> bool:
    parameter = kernel.by_name.get(name)
    return parameter is not None and parameter.is_numeric


def _by_axes(space: SearchSpace, columns: Mapping[str, Any], blocks: list[str]) -> GpuLaunch:
    """The launches of a kernel whose parameters follow Kernel Tuner's convention."""
    names = space.problem.names()
    threads, work, padded = np.ones((3, len(space)))
    for name in blocks:
        axis = name[-1]
        block = np.maximum(1.0, columns[name].astype(float))
        tile_name = f"tile_size_{axis}"
        tile = np.maximum(1.0, columns[tile_name].astype(float)) if _is_number(space.kernel, tile_name) else 1.0
        threads, work = threads * block, work * tile
        size = names.get(f"size_{axis}")
        if isinstance(size, int) and size > 0:
            padded = padded * np.ceil(size / (block * tile)) * block * tile / size
    return GpuLaunch(threads, work, padded)
