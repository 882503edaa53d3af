"""What a tool can run of a task: parameters that it lacks, bounds, and shared memory of stages."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.hooks.asking import ANY, fitting, narrowed
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from tests.support.devices import described_gpu

FAMILY = kernel("triton.gemm")


def task(name: str, **features: int) -> Task:
    sizes = {"m": 1024, "n": 1024, "k": 1000, **features}
    problem = Problem.make("gemm", **sizes, dtype="fp16", trans_b="yes")
    return Task.of(problem, described_gpu("triton", name), [FAMILY])


def test_parameters_that_a_tool_lacks_keep_their_defaults_and_others_their_bounds() -> None:
    whole = task("h200", m=64, n=64, k=4096)
    part = narrowed(whole, {"BLOCK_M": (32, 64), "BLOCK_N": ANY, "num_warps": ANY})
    columns = part.spaces[0].columns()
    assert set(columns["BLOCK_M"]) == {32, 64}
    assert len(set(columns["BLOCK_N"])) > 2
    for name in ("BLOCK_K", "GROUP_M", "SPLIT_K", "num_stages"):
        assert set(columns[name]) == {whole.spaces[0].default[name]}
    with pytest.raises(KernelError, match=r"no configuration of triton\.gemm is one that the tool can run"):
        narrowed(whole, {"BLOCK_M": (512, 1024)})


@pytest.mark.parametrize("name", ["a100", "h200", "mi300x"])
def test_stages_of_both_operands_fit_even_where_the_formula_has_no_ring(name: str) -> None:
    whole = task(name)  # 8, but not 16, divides k: a launch does not show it to the compiler, a constant does
    part = fitting(whole)
    assert 0 < len(part) < len(whole)
    columns = part.spaces[0].columns()
    rings = columns["ring"] * (columns["a_bytes"] + columns["b_bytes"])
    assert np.max(rings) <= part.device.local_memory
    assert len(fitting(task(name, k=1024))) == len(task(name, k=1024))
