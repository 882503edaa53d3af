"""Triton's compiler for GPUs that are not here: what it allocates is what the family declares."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.answering import Answering
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.compilers import resource_usage
from seqtune.tuner.backends.triton.compiler import FUSION, TritonCompiler, target_of
from seqtune.tuner.compile_check import contradictions_of
from tests.support.devices import described_gpu

pytest.importorskip("triton", reason="Triton is not installed (Linux only): make develop")

gpu = partial(described_gpu, "triton")
FAMILY = kernel("triton.gemm")


@pytest.mark.parametrize(("name", "features"), [
    ("h200", {"m": 256, "n": 512, "k": 512, "dtype": "bf16", "bias": "yes"}),
    ("a100", {"m": 1, "n": 100, "k": 333, "trans_b": "yes"}),
    ("mi300x", {"m": 70, "n": 256, "k": 512, "dtype": "fp16", "activation": "relu"})])
def test_a_compiled_kernel_needs_what_the_family_declares(name: str, features: dict[str, Any],
                                                          tmp_path_factory: pytest.TempPathFactory,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    device, problem = gpu(name), Problem.make("gemm", **features)
    compiler = TritonCompiler(device)
    space = SearchSpace(FAMILY, problem, device)
    split = space.nearest({**dict(space.default.settings), "SPLIT_K": 2})
    for configuration, steps in ((space.default, 1), (split, 1 + (split["SPLIT_K"] == 2))):
        needs = compiler.steps(problem, FAMILY, configuration)
        assert len(needs) == steps
        assert contradictions_of(FAMILY, problem, configuration, device, needs) == []
        assert all(need.registers > 8 for need in needs)
        usage = resource_usage(needs, device)
        assert usage is not None
        assert 0 < usage.occupancy <= 1
        assert usage.shared_bytes == max(need.shared for need in needs)


def drawn(count: int) -> list[Problem]:
    """Different random products, with the element types in turn."""
    generator = np.random.default_rng(0)
    return [Problem.make("gemm", **{**operation("gemm").draw(generator), "dtype": ("fp16", "bf16", "fp32")[number % 3]})
            for number in range(count)]


@pytest.mark.slow
@pytest.mark.anywhere
@pytest.mark.parametrize("name", ["h200", "mi300x", "a100"])
def test_first_proposals_for_random_products_compile_to_what_the_family_declares(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = gpu(name)
    for problem in drawn(6):
        (configuration,) = Answering.of(Task.of(problem, device, [FAMILY])).propose(1)
        needs = TritonCompiler(device).steps(problem, FAMILY, configuration)
        assert contradictions_of(FAMILY, problem, configuration, device, needs) == [], problem.brief()


@pytest.mark.parametrize("name", ["h200", "a100", "mi300x"])
def test_the_product_of_experts_compiles_for_gpus_that_are_not_here(name: str, tmp_path_factory: pytest.TempPathFactory,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
    import triton
    from triton.compiler import ASTSource

    from tests.support.triton.experts import experts

    constants = {"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "SHARED": 1}
    pointers = dict.fromkeys(("x", "weights", "y"), "*bf16") | {
        "shares": "*fp32", "sorted_pairs": "*i32", "block_experts": "*i32"}
    signature = {argument: pointers.get(argument, "constexpr" if argument in constants else "i32")
                 for argument in experts.arg_names}
    divisible = [experts.arg_names.index(argument) for argument in (*pointers, "columns", "depth")]
    source = ASTSource(fn=experts, signature=signature,
                       constexprs={(experts.arg_names.index(name),): value for name, value in constants.items()},
                       attrs={(index,): [["tt.divisibility", 16]] for index in divisible})
    compiled = triton.compile(source, target=target_of(gpu(name)), options={"num_warps": 4, "num_stages": 2, **FUSION})
    rings = 2 if name == "h200" else 1
    assert compiled.metadata.shared == rings * 2 * 64 * 64 * 2


def test_what_triton_refuses_is_a_build_error() -> None:
    device, problem = gpu("h200"), Problem.make("gemm", m=64, n=64, k=64)
    settings = dict(SearchSpace(FAMILY, problem, device).default.settings)
    broken = Configuration.of(FAMILY.name, {**settings, "BLOCK_M": 24})
    with pytest.raises(BuildError, match="power of 2"):
        TritonCompiler(device).steps(problem, FAMILY, broken)


@pytest.mark.parametrize(("name", "reason"), [
    ("t4", "from sm_80"), ("b200", "tensor memory"), ("w7800", "from sm_80")])
def test_gpus_whose_formula_is_not_known_are_refused_with_the_reason(name: str, reason: str) -> None:
    why = FAMILY.why_not(Problem.make("gemm", m=64, n=64, k=64), gpu(name))
    assert why is not None
    assert reason in why


def test_every_odd_problem_has_a_configuration() -> None:
    generator = np.random.default_rng(0)
    for name in ("h200", "a100", "mi300x"):
        for _ in range(30):
            m, n, k = (int(size) for size in generator.choice([1, 2, 3, 7, 16, 33, 770], 3))
            for dtype in ("fp32", "bf16"):
                problem = Problem.make("gemm", m=m, n=n, k=k, dtype=dtype)
                assert len(SearchSpace(FAMILY, problem, gpu(name))), (name, problem.brief())
