"""The shim finds what a GPU forbids: every mistake planted in a correct kernel is reported or gives wrong numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.cuda.tensor_gemm import IMPLEMENTATION, KERNEL
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.call import Call
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.measuring.timing import prepare
from tests.support.cuda.shim import ShimError, bank_conflicts, run_on_shim, why_not_here
from tests.support.devices import described_gpu

pytestmark = pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or "")

PROBLEM = Problem.make("gemm", m=40, n=36, k=104, dtype="fp16", bias="yes")
SETTINGS: dict[str, int | str] = {
    "block_m": 32, "block_n": 32, "warp_m": 16, "warp_n": 16, "block_k": 32, "stages": 3,
    "fragments": 1, "layout_shared": "swizzle", "epilogue": "shared", "group_m": 1, "schedule": "tiles",
    "split_k": 1}


def outcome(old: str, new: str, shared: int = 0) -> str:
    """Run the kernel with one piece of its text changed, and `shared` more bytes; returns "right" or what is wrong."""
    device = described_gpu("cuda", "a100")
    configuration = Configuration.of(KERNEL.name, SETTINGS)
    assert configuration in SearchSpace(KERNEL, PROBLEM, device)
    call = IMPLEMENTATION.call(PROBLEM, device, configuration)
    assert old in call.source.text
    planted = Call(replace(call.source, text=call.source.text.replace(old, new)),
                   tuple(replace(step, shared=step.shared + shared) for step in call.steps))
    operands, expected = prepare(PROBLEM)
    try:
        error = expected.error(run_on_shim(KERNEL, PROBLEM, device, configuration, 1, operands, planted))
    except ShimError as failure:
        return str(failure)
    return "right" if error <= expected.tolerance else "wrong numbers"


MISTAKES = {  # name -> a piece of the text, what stands in its place, words of the report
    "a stage too few is waited for": ("cp_async_wait<STAGES - 2>()", "cp_async_wait<STAGES - 1>()", "race"),
    "no barrier after the wait": ("wait();\n        __syncthreads();", "wait();", "race"),
    "elements beyond the end of k": ("at < k, of(copy)", "true, of(copy)", "out of bounds|wrong numbers"),
    "rows beyond the end are stored": ("to_row < output.rows && ", "", "out of bounds"),
    "a warp that leaves before a barrier": ("  __syncthreads();\n  #pragma unroll 4",
                                            "  if (threadIdx.x < 32) return;\n  __syncthreads();", "divergent"),
    "a ring of stages that wraps too late": ("== STAGES * STAGE_BYTES", "== STAGES * STAGE_BYTES + 8", "out of bounds"),
    "stages 8 bytes apart from where they are": ("STAGE_BYTES = A_BYTES", "STAGE_BYTES = 8 + A_BYTES", "misaligned"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_planted_mistake_is_found(mistake: str) -> None:
    old, new, words = MISTAKES[mistake]
    report = outcome(old, new)
    assert any(word in report for word in words.split("|")), report


def test_shared_memory_that_is_too_small_is_found() -> None:
    assert outcome("", "") == "right"
    assert "out of bounds" in outcome("", "", shared=-64)


def test_bank_conflicts_are_counted() -> None:
    bank_conflicts()
    assert outcome("(chunk ^ (row / SHARING & MASK))", "chunk") == "right"
    assert bank_conflicts() > 0


@pytest.mark.parametrize("schedule", [{}, {"schedule": "stream_k"}, {"epilogue": "direct", "split_k": 2}])
def test_no_result_depends_on_the_order_of_blocks_and_lanes(schedule: dict[str, int | str]) -> None:
    device = described_gpu("cuda", "a100")
    space = SearchSpace(KERNEL, PROBLEM, device)
    configuration = space.nearest({**SETTINGS, **schedule})
    assert all(configuration[name] == value for name, value in schedule.items())
    operands, expected = prepare(PROBLEM)
    results = [run_on_shim(KERNEL, PROBLEM, device, configuration, seed, operands) for seed in range(3)]
    assert expected.error(results[0]) <= expected.tolerance
    assert all(np.array_equal(results[0], result) for result in results)
