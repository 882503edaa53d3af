"""The kernels of vLLM and SGLang: expected work of experts, and what the analytic model reads."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from seqtune.kernels.kernel import Kernel, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.triton.fused_moe import KERNEL as FUSED_MOE
from seqtune.kernels.triton.scaled_gemm import KERNEL as SCALED_GEMM
from seqtune.tuner.cost_models.product_tiles import describes_tiles
from tests.support.devices import described_gpu

gpu = partial(described_gpu, "triton")


def served_default(problem: Problem) -> dict[str, Setting]:
    """The settings that vLLM and SGLang use where they find no file, by the rule of vLLM's `get_default_config`.

    num_warps and num_stages are Triton's own defaults where the rule names none. Raises ProblemError.
    """
    if problem.size("scale_k"):
        sizes = 64, problem.size("scale_n"), problem.size("scale_k"), 32
    elif problem.size("tokens") <= problem.size("experts"):
        sizes = 16, 32, 64, 1
    else:
        sizes = 64, 64, 32, 8
    return {**dict(zip(("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M"), sizes, strict=True)),
            "num_warps": 4, "num_stages": 3}


def routed_rows(tokens: int, experts: int, top_k: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The rows of each expert in 200 random routings, (routing, expert)."""
    generator = np.random.default_rng(0)
    draws = generator.random((200, tokens, experts)).argpartition(top_k - 1, axis=2)[:, :, :top_k]
    return np.stack([np.bincount(draw.ravel(), minlength=experts) for draw in draws])


@pytest.mark.parametrize(("tokens", "experts", "top_k"), [(1, 8, 2), (5, 60, 4), (16, 8, 2), (64, 64, 6), (200, 8, 2)])
def test_the_expected_blocks_of_experts_are_those_of_random_routing(tokens: int, experts: int, top_k: int) -> None:
    rows = routed_rows(tokens, experts, top_k)
    problem = Problem.make("fused_moe", tokens=tokens, experts=experts, top_k=top_k, hidden=512, intermediate=64)
    space = SearchSpace(FUSED_MOE, problem, gpu("h200"))
    assert space.problem.names()["active"] == pytest.approx((rows > 0).sum(axis=1).mean(), rel=0.03)
    derived = dict(FUSED_MOE.derived)
    for block in (16, 64, 128):
        names = {**problem.names(), "BLOCK_SIZE_M": block}
        for name in ("floor_far", "floor_near", "block_rows"):
            names[name] = derived[name](names)
        expected = -(-rows // block)
        assert names["block_rows"] == pytest.approx(expected.sum(axis=1).mean(), rel=0.12)


@pytest.mark.parametrize("family", [FUSED_MOE, SCALED_GEMM])
def test_the_names_of_the_analytic_model_are_declared(family: Kernel) -> None:
    assert describes_tiles(family)


@pytest.mark.parametrize("device", ["a100", "l40s", "h200", "b200", "mi300x"])
@pytest.mark.parametrize("text", [
    "fused_moe tokens=1 experts=256 top_k=8 hidden=7168 intermediate=256 dtype=fp8_w8a8 scale_n=128 scale_k=128",
    "fused_moe tokens=4096 experts=8 top_k=2 hidden=4096 intermediate=3584", "scaled_gemm m=64 n=2048 k=7168"])
def test_there_are_thousands_of_configurations_and_none_is_too_large(text: str, device: str) -> None:
    problem = parse_problem(text)
    family = FUSED_MOE if problem.type == "fused_moe" else SCALED_GEMM
    space = SearchSpace(family, problem, gpu(device))
    columns = space.columns()
    assert len(space) > 1000
    assert int(columns["shared_bytes"].max()) <= gpu(device).local_memory
    assert columns["kpack"].max() == (2 if device == "mi300x" else 1)


@pytest.mark.parametrize("features", [{}, {"tokens": 512}, {"scale_n": 128, "scale_k": 128, "dtype": "fp8_w8a8"}])
def test_the_projects_own_default_is_in_the_space(features: dict[str, int | str]) -> None:
    problem = Problem.make("fused_moe", **{"tokens": 4, "experts": 8, "top_k": 2, "hidden": 4096, "intermediate": 3584,
                                           **features})
    space = SearchSpace(FUSED_MOE, problem, gpu("h200"))
    settings = {**dict(FUSED_MOE.default), **served_default(problem)}
    assert space.find([settings])[0] >= 0


def test_an_experts_rule_is_one_line() -> None:
    device, problem = gpu("a100"), parse_problem("fused_moe tokens=1 experts=8 top_k=2 hidden=512 intermediate=512")
    space = SearchSpace(FUSED_MOE, problem, device)
    wide = {"BLOCK_SIZE_M": 256, "BLOCK_SIZE_N": 256, "BLOCK_SIZE_K": 256, "num_warps": 8}
    tma = {"USE_TMA": 1}
    for changed, reason in ((wide, "do not fit in shared memory"), (tma, "second product")):
        settings = {**dict(FUSED_MOE.default), **changed}
        configuration = type(space.default).of(FUSED_MOE.name, settings)
        assert reason in str(space.why_not(configuration))
