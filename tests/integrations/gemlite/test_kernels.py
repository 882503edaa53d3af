"""gemlite's kernels: their spaces on GPUs of several generations, and what the analytic model reads."""

from __future__ import annotations

import pytest

from seqtune.integrations.gemlite.kernels.library import KERNELS
from seqtune.kernels.declaration import from_json, to_json
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import spaces_for
from seqtune.tuner.cost_models.analytic import term_columns
from seqtune.tuner.cost_models.product_tiles import describes_tiles
from tests.support.devices import described_gpu

PACKED = "n=4096 k=4096 dtype=fp16 weight_dtype=int4 packed=8 scale_n=1 scale_k=64"
PLAIN = "n=4096 k=4096 dtype=int8 weight_dtype=int8 scale_n=1 scale_k=4096"


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_can_be_carried_by_a_file_and_describes_its_tiles(name: str) -> None:
    family = kernel(name)
    assert from_json(to_json(family)) == family
    assert describes_tiles(family)


@pytest.mark.parametrize("device", ["t4", "a100", "rtx-4090", "h100", "mi300x"])
@pytest.mark.parametrize(("m", "features", "name"), [
    (1, PACKED, "gemlite.gemv_revsplitk"), (1, PLAIN, "gemlite.gemv_splitk"), (16, PACKED, "gemlite.gemm_splitk"),
    (64, PLAIN, "gemlite.gemm_splitk"), (512, PACKED, "gemlite.gemm"), (2048, PLAIN, "gemlite.gemm")])
def test_gemlites_rule_leaves_one_kernel_with_its_default(m: int, features: str, name: str, device: str) -> None:
    gpu = described_gpu("triton", device)
    space, = spaces_for(parse_problem(f"quantized_gemm m={m} {features}"), gpu)
    assert space.kernel.name == name
    assert len(space) > 40
    assert space.default in space
    columns = space.columns()
    if "BLOCK_SIZE_M" in columns:
        assert (columns["shared_bytes"] <= gpu.local_memory)[columns["num_stages"] > 1].all()
        assert columns["num_stages"].max() <= (2 if device == "mi300x" else 5)
    assert (columns["waves_per_eu"].max() > 0) == (device == "mi300x")
    assert all(len(term) == len(space) for term in term_columns(space))
