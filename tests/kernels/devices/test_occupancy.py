"""Occupancy: cases of NVIDIA's occupancy calculator, and agreement between numbers and columns."""

from __future__ import annotations

import pytest

from seqtune.kernels.devices.occupancy import LIMITS, blocks_by_limit, occupancy
from tests.support.devices import described_gpu

# (GPU, threads, registers, shared bytes) -> blocks by limit, as `cuda_occupancy.h` of CUDA 13.0 computes them with the
# whole carve-out for shared memory. The same comparison over 20,000 random kernels of seven GPUs found no difference.
CALCULATOR = [
    ("h200", 128, 32, 0, (32, 16, 16, 228)),
    ("h200", 128, 168, 100_000, (32, 16, 3, 2)),
    ("h200", 1024, 65, 0, (32, 2, 0, 228)),
    ("a100", 256, 255, 166_912, (32, 8, 1, 1)),
    ("a100", 96, 40, 5_000, (32, 21, 16, 27)),
    ("l4", 256, 72, 33_000, (24, 6, 3, 3)),
    ("t4", 64, 128, 16_384, (16, 16, 8, 4)),
]


@pytest.mark.parametrize(("model", "threads", "registers", "shared", "expected"), CALCULATOR)
def test_the_limits_are_those_of_nvidias_calculator(model: str, threads: int, registers: int, shared: int,
                                                    expected: tuple[int, ...]) -> None:
    limits = blocks_by_limit(described_gpu("cuda", model), threads, registers, shared)
    assert tuple(int(count) for count in limits.values()) == expected


def test_the_smallest_limit_decides_and_is_named() -> None:
    tight = occupancy(described_gpu("cuda", "h200"), 128, 168, 100_000)
    assert (tight.blocks, tight.warps, tight.limit) == (2, 8, "shared memory")
    assert tight.share == 8 / 64
    assert occupancy(described_gpu("cuda", "h200"), 1024, 65, 0).blocks == 0
    assert occupancy(described_gpu("cuda", "h200"), 128, 16, 0).limit == "threads"


def test_amds_waves_of_64_share_four_register_files() -> None:
    by_limit = blocks_by_limit(described_gpu("triton", "mi300x"), 256, 128, 32768)
    assert {name: int(by_limit[name]) for name in LIMITS} == {
        "blocks": 32, "threads": 8, "registers": 4, "shared memory": 2}
