"""Tiles of CLBlast's Xgemm: a recorded kernel with its parameters gets the names that the analytic model reads.

The parameters are explained in CLBlast's `src/kernels/level3/xgemm_part1.opencl`: a work-group of MDIMC x NDIMC
work-items computes MWG x NWG numbers in steps of KWG; SA and SB say which operand passes local memory, into which
MDIMA x (threads / MDIMA) and NDIMB x (threads / NDIMB) work-items copy it; VWM and VWN are vector widths. Without a
stride (STRM=0) a work-item owns neighbouring vectors, so that its neighbours' are MWG / MDIMC numbers apart: shared
memory, whose 32 banks are 4 bytes wide, then serves a row of work-items in several turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from seqtune.kernels.devices.accelerators import described, slug
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.task import MeasuredTask, Task

PARAMETERS = ("MWG", "NWG", "KWG", "MDIMC", "NDIMC", "MDIMA", "NDIMB", "VWM", "VWN", "STRM", "STRN", "SA", "SB")


def _operand(side: str, tile: str, across: str, copying: str, vector: str, stride: str, staged: str,
             lanes: str) -> dict[str, str]:
    """The quantities of one operand: turns of shared memory in which a warp loads a fragment, and copies a row."""
    return {
        f"thread_{side}": f"{tile} // {across}",
        f"vector_{side}": f"min({vector}, 4)",  # 16 bytes; wider vectors are several loads
        f"peers_{side}": f"min({lanes}, 32 // vector_{side})",  # different addresses among lanes served together
        f"step_{side}": f"max(vector_{side}, thread_{side} if {stride} == 0 else {vector})",
        f"turns_{side}": f"vector_{side} * peers_{side} / min(peers_{side}, max(1, 32 // step_{side}))",
        f"fragment_turns_{side}": f"thread_{side} / vector_{side} * turns_{side}",
        f"copy_peers_{side}": f"min(min({copying}, 32), 32 // vector_{side})",
        f"copy_step_{side}": f"max(vector_{side}, {tile} // {copying} if {stride} == 0 else {vector})",
        f"copy_{side}": (f"{staged} * {tile} / 32 * copy_peers_{side} / min(copy_peers_{side}, "
                         f"max(1, 32 // copy_step_{side}))"),
    }


QUANTITIES: Mapping[str, str] = {
    "gemm_m": "size_x", "gemm_n": "size_y", "gemm_k": "size_x",  # the recorded products are square
    "products": "1", "block_m": "MWG", "block_n": "NWG", "block_k": "KWG", "block_threads": "MDIMC * NDIMC",
    "stages": "1", "split_k": "1", "blocks": "ceil_div(gemm_m, MWG) * ceil_div(gemm_n, NWG)",
    "shared_bytes": "4 * KWG * (SA * MWG + SB * NWG)", "element_bytes": "4", "tensor": "0", "group_m": "1",
    "load_bytes": "4 * min(min(VWM, VWN), 4)",
    **_operand("m", "MWG", "MDIMC", "MDIMA", "VWM", "STRM", "SA", "min(MDIMC, 32)"),
    **_operand("n", "NWG", "NDIMC", "NDIMB", "VWN", "STRN", "SB", "max(1, 32 // MDIMC)"),
    # accumulators, two values of k of each operand, addresses
    "thread_registers_estimate": "thread_m * thread_n + 2 * (thread_m + thread_n) + 24",
    "fragment_loads": "thread_m / vector_m + thread_n / vector_n",
    "fragment_transactions": "fragment_turns_m + fragment_turns_n",
    "copy_transactions": "copy_m + copy_n",
    "staged_share": "(SA * fragment_turns_m + SB * fragment_turns_n) / fragment_transactions",
}


def with_tiles(kernel: Kernel) -> Kernel:
    """The kernel with the tiles of Xgemm as derived quantities; unchanged if it lacks one of its PARAMETERS."""
    if not set(PARAMETERS) <= set(kernel.by_name):
        return kernel
    return replace(kernel, derived=(*kernel.derived, *((name, Expression(text)) for name, text in QUANTITIES.items())))


def with_facts(device: Device) -> Device:
    """A recorded device with the facts of the GPU that it is named after; unchanged if the table lacks the GPU.

    The name stays, so that records are still found.
    """
    gpu = described("cuda", slug(device.name.partition(":")[2])) or described("cuda", slug(device.model))
    return device if gpu is None else replace(gpu, name=device.name, backend=device.backend, toolchain=device.toolchain)


def described_task(measured: MeasuredTask) -> MeasuredTask:
    """The same measurements with tiles and facts of the GPU, where both are known."""
    device = with_facts(measured.device)
    spaces = []
    for space in measured.task.spaces:
        kernel = with_tiles(space.kernel)
        spaces.append(space.of_rows(kernel, space.problem, device, space.rows))
    return MeasuredTask(Task(measured.problem, device, tuple(spaces)), measured.seconds)
