"""Every thread's own piece of the workspace, whatever the numbers of threads and tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.llvm.ir import depthwise_nchw as llvm_depthwise_planes
from seqtune.kernels.llvm.ir import winograd_stages as llvm_winograd_loops
from seqtune.kernels.llvm.ir.tiling import pieces
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace

DEVICE = Device("llvm:avx2:2", "llvm", "haswell", "avx2", threads=2, compute_units=2, vector_bits=256,
                vector_registers=16, l1_bytes=32 << 10, l2_bytes=1 << 20, l3_bytes=8 << 20)


def used(threads: int, tasks: int) -> list[int]:
    """The piece of every thread that has tasks."""
    shares = [(tasks * i // threads, tasks * (i + 1) // threads) for i in range(threads)]
    return [-(-begin * threads // tasks) for begin, end in shares if begin < end]


def test_pieces_are_apart_and_in_the_workspace() -> None:
    for threads in range(1, 17):
        for tasks in range(1, 50):
            found = used(threads, tasks)
            assert len(set(found)) == len(found)
            assert max(found) < pieces(threads, tasks) <= threads


@pytest.mark.parametrize(("family", "fields", "features"), [
    ("llvm.winograd", llvm_winograd_loops.FIELDS, {"c": 4, "k": 12}),
    ("llvm.depthwise", llvm_depthwise_planes.FIELDS, {"c": 3, "k": 3, "groups": 3})])
def test_a_workspace_holds_the_pieces_of_more_threads_than_tasks(
        family: str, fields: tuple[str, ...], features: dict[str, int]) -> None:
    problem = Problem.make("conv2d", h=13, w=13, r=3, s=3, **features)
    implementation = llvm_implementation(kernel(family))
    for threads in (1, 2, 3, 4, 8):
        space = SearchSpace(kernel(family), problem, replace(DEVICE, threads=threads))
        for configuration in space.sample(np.random.default_rng(0), 5):
            launch = implementation.launch(problem, space.device, configuration)
            tasks, piece = (launch.arguments[fields.index(field)] for field in ("tasks", "piece"))
            assert launch.workspace >= (max(used(threads, tasks)) + 1) * piece
