"""llvm.attention_bf16 against the definition: all over its space, odd numbers, slices of wider tensors, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.devices.element_types import decode, encode, rounded
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.llvm.attention_views import AttentionViews
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import Threads
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.devices import device_of
from tests.support.exactness import answer, launch
from tests.support.oddities import odd_problems

ABLE = [] if llvm.unavailable() else [device for device in llvm.devices() if device.names()["bf16_dots"]]
needs_dots = pytest.mark.skipif(not ABLE, reason="this CPU has no dot products of bf16 numbers")
FAMILY = kernel("llvm.attention_bf16")
PAPER = replace(device_of("llvm"), extra=(("bf16_dots", 1),))


def attention(**features: int | str) -> Problem:
    """A small problem in bf16."""
    return Problem.make("attention", **{"heads": 1, "q_len": 16, "kv_len": 41, "head_dim": 32, "value_dim": 16,
                                        "dtype": "bf16", **features})


def allowed(problem: Problem, operands: Mapping[str, Array], expected: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest difference: of y, half a unit; of a weight, the same and once more in the sum of all weights."""
    of_values: NDArray[np.float64] = reference(problem, {**operands, "v": np.abs(operands["v"])})
    return 2.0**-9 * np.abs(expected) + 1.1 * 2.0**-8 * of_values


def check(backend: LLVMBackend, problem: Problem, seed: int) -> None:
    """The default and two other configurations are right."""
    space, operands = SearchSpace(FAMILY, problem, backend.device), make_operands(problem, seed)
    expected = reference(problem, operands)
    for configuration in [space.default, *space.sample(np.random.default_rng(seed), 2)]:
        y = answer(backend, FAMILY, problem, configuration, operands)
        assert (np.abs(y - expected) <= allowed(problem, operands, expected)).all(), (
            problem.brief(), configuration.brief())


def run(backend: LLVMBackend, problem: Problem, operands: Mapping[str, Array]) -> Array:
    """The output of the default on poisoned buffers."""
    return launch(backend, FAMILY, problem, SearchSpace(FAMILY, problem, backend.device).default, operands)


@needs_dots
class TestAnswers:
    def test_odd_problems_are_right_all_over_the_space(self, backends: dict[str, LLVMBackend]) -> None:
        backend = backends[ABLE[0].name]
        for seed, problem in enumerate(odd_problems(FAMILY, backend.device, 6, seed=5)):
            check(backend, problem, seed)

    @pytest.mark.parametrize("features", [
        {"q_len": 300, "kv_len": 300, "head_dim": 64, "value_dim": 64, "causal": "yes"},  # several blocks
        {"q_len": 33, "kv_len": 257, "value_dim": 17, "mask": "scores"},
        {"n": 2, "heads": 4, "group": 2, "mask": "keys"}])
    def test_several_blocks_and_an_odd_number_of_keys_are_right(
            self, backends: dict[str, LLVMBackend], features: dict[str, int | str]) -> None:
        for device in ABLE:
            check(backends[device.name], attention(**features), 1)

    def test_answers_do_not_depend_on_the_threads(self, backends: dict[str, LLVMBackend]) -> None:
        problem = attention(heads=5, q_len=70, causal="yes")
        operands, configuration = make_operands(problem), SearchSpace(FAMILY, problem, ABLE[0]).default
        several, one = (answer(backends[device.name], FAMILY, problem, configuration, operands)
                        for device in (ABLE[0], ABLE[-1]))
        assert (several == one).all()

    def test_queries_that_see_no_key_give_zero_and_the_least_number_hides_nothing(
            self, backends: dict[str, LLVMBackend]) -> None:
        problem = attention(mask="scores")
        operands = make_operands(problem)
        operands["mask"][0, 3] = -np.inf
        operands["mask"][0, 5] = np.finfo(np.float32).min  # Hugging Face's mask: all scores are then equal
        operands["mask"][0, 7, 1:] = np.finfo(np.float32).min
        y = run(backends[ABLE[0].name], problem, operands)[0, 0]
        assert (y[3] == 0).all()
        assert np.allclose(y[5], operands["v"][0, 0].mean(axis=0), rtol=2**-8, atol=1e-6)
        assert (y[7] == operands["v"][0, 0, 0]).all()

    @pytest.mark.parametrize("mask", ["none", "keys"])
    def test_a_nan_stays_in_its_row_and_large_scores_do_not_overflow(
            self, backends: dict[str, LLVMBackend], mask: str) -> None:
        problem = attention(mask=mask)
        operands = make_operands(problem)
        operands["q"][0, 0, 2, 0] = np.nan
        operands["q"][0, 0, 4] = rounded(operands["q"][0, 0, 4] * np.float32(1e30), "bf16")
        operands["q"][0, 0, 6] = rounded(operands["q"][0, 0, 6] * np.float32(1e-40), "bf16")
        expected = reference(problem, operands)
        y, others = run(backends[ABLE[0].name], problem, operands), [row for row in range(16) if row != 2]
        assert np.isnan(y[0, 0, 2]).all()
        assert (np.abs(y - expected) <= allowed(problem, operands, expected))[0, 0, others].all()

    def test_infinite_values_pass(self, backends: dict[str, LLVMBackend]) -> None:
        problem = attention()
        operands = make_operands(problem)
        operands["v"][0, 0, 40, 3] = np.inf
        y = run(backends[ABLE[0].name], problem, operands)[0, 0]
        assert (y[:, 3] == np.inf).all()
        assert np.isfinite(np.delete(y, 3, axis=1)).all()


@needs_dots
@pytest.mark.parametrize("scale", [0.3, -0.3, 0.0])
@pytest.mark.parametrize("y_element", ["bf16", "fp32"])
def test_slices_of_one_buffer_are_read_and_written_in_place(y_element: str, scale: float) -> None:
    """q, k and v are thirds of the rows of one buffer, y a half of wider rows; earlier queries see fewer keys."""
    n, heads, length, dim = 2, 3, 21, 32
    width = heads * dim
    problem = attention(n=n, heads=heads, q_len=length, kv_len=length, head_dim=dim, value_dim=dim, layout="tokens",
                        causal="yes")
    whole = rounded(np.random.default_rng(0).standard_normal((n, length, 3 * width), np.float32), "bf16")
    stored = encode(whole, "bf16")
    steps = (length * 3 * width, dim, 3 * width)
    views = AttentionViews(steps, steps, steps, (length * 2 * width, dim, 2 * width), (0, 0, 0), scale, y_element)
    operands = {name: whole[:, :, third * width:(third + 1) * width].reshape(n, length, heads, dim)
                for third, name in enumerate("qkv")}
    operands["q"] = operands["q"] * np.float32(scale * np.sqrt(dim))
    compiler = Compiler(ABLE[0].instruction_set)
    threads = Threads(compiler, ABLE[0].threads)
    binder, implementation = KernelBinder(ABLE[0], compiler, threads), _implementation()
    configuration = SearchSpace(FAMILY, problem, ABLE[0]).default
    y = encode(np.full((n, length, 2 * width), np.nan, np.float32), y_element)
    bound = binder.bind_source(implementation.source(problem, ABLE[0], configuration, views),
                               implementation.launch(problem, ABLE[0], configuration, views))
    bound.job[:4] = [*(stored.ctypes.data + 2 * third * width for third in range(3)),
                     y.ctypes.data + y.itemsize * width]
    threads.run(bound.address)
    threads.close()
    result = decode(y, y_element)
    assert np.isnan(result[:, :, :width]).all()
    expected = reference(problem, operands)
    assert (np.abs(result[:, :, width:].reshape(expected.shape) - expected)
            <= allowed(problem, operands, expected)).all()


def _implementation() -> Any:
    return llvm_implementation(FAMILY)


@pytest.mark.parametrize(("features", "reason"), [
    ({"dtype": "fp32"}, "bf16 only"), ({"head_dim": 33}, "even number of numbers"),
    ({"q_len": 3}, "at least 4 queries"), ({"kv_len": 3}, "at least 4 keys"),
    ({"head_dim": 6}, "at least 8 numbers"), ({"value_dim": 3}, "values of at least 4")])
def test_a_refusal_says_the_reason(features: dict[str, int | str], reason: str) -> None:
    assert FAMILY.why_not(attention(), PAPER) is None
    assert reason in str(FAMILY.why_not(attention(**features), PAPER))


def test_a_cpu_without_dot_products_of_bf16_has_no_attention_in_bf16() -> None:
    for device in (device_of("llvm"), *(device for device in llvm.devices() if device not in ABLE)):
        assert "no dot products of bf16" in str(FAMILY.why_not(attention(), device))
        assert kernels_for(attention(), device) == ()


def test_families_of_fp32_do_not_write_bf16() -> None:
    problem = attention(dtype="fp32")
    views = replace(AttentionViews.of(problem), y_element="bf16")
    for name in ("llvm.attention", "llvm.attention_decode"):
        implementation: Any = llvm_implementation(kernel(name))
        configuration = SearchSpace(kernel(name), problem, PAPER).default
        with pytest.raises(KernelError, match="writes fp32 only, not bf16"):
            implementation.source(problem, PAPER, configuration, views)
