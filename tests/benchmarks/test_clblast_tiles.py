"""CLBlast's Xgemm as a recorded kernel whose tiles are known."""

from __future__ import annotations

import numpy as np

from benchmarks.prediction.clblast_tiles import PARAMETERS, described_task, with_facts, with_tiles
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.product_tiles import describes_tiles, tiles_of

VALUES = {"MWG": (128,), "NWG": (64,), "KWG": (32,), "MDIMC": (8, 16), "NDIMC": (16,), "MDIMA": (16,), "NDIMB": (16,),
          "VWM": (1, 4), "VWN": (4,), "STRM": (0,), "STRN": (0,), "SA": (0, 1), "SB": (1,)}
DEVICE = Device("recorded:RTX_3090", "recorded", "nvidia", "none", model="NVIDIA GeForce RTX 3090")


def recorded(parameters: tuple[str, ...] = PARAMETERS) -> MeasuredTask:
    kernel = Kernel.of(name="recorded.gemm", operation="recorded", meaning="", default={}, backends=["recorded"],
                       parameters=[Parameter(name, VALUES[name]) for name in parameters])
    problem = Problem.make("recorded", kernel="gemm", size_x=4096, size_y=4096)
    space = SearchSpace(kernel, problem, DEVICE)
    return MeasuredTask(Task(problem, DEVICE, (space,)), np.ones(len(space)))


def test_a_recorded_task_keeps_its_names_and_gets_tiles_and_facts() -> None:
    described = described_task(recorded())
    assert described.device.name == DEVICE.name
    assert described.device.compute_units == 82
    assert np.isfinite(estimates(described.task)).all()
    tiles, columns = tiles_of(described.task.spaces[0]), described.task.spaces[0].columns()
    assert (tiles.shared_bytes == 4 * 32 * (columns["SA"] * 128 + 64)).all()
    assert (tiles.blocks == 32 * 64).all()
    assert (tiles.fragment_m == 128 // columns["MDIMC"]).all()


def test_narrow_vectors_far_apart_share_banks_of_shared_memory() -> None:
    space = described_task(recorded()).task.spaces[0]
    columns = space.columns()
    narrow, wide = (tiles_of(space).fragment_transactions[(columns["VWM"] == width) & (columns["MDIMC"] == 16)]
                    for width in (1, 4))
    assert (narrow > wide).all()


def test_another_recorded_kernel_and_an_unknown_gpu_stay_as_they_are() -> None:
    other = recorded(PARAMETERS[:5])
    assert with_tiles(other.task.kernels[0]) is other.task.kernels[0]
    assert not describes_tiles(described_task(other).task.kernels[0])
    unknown = Device("recorded:GT-710", "recorded", "nvidia", "none")
    assert with_facts(unknown) is unknown
