"""llvm.gemm_int8: exact sums of products on every instruction set, and with every method to multiply words."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.fusion import Fusion
from seqtune.kernels.llvm.gemm import IMPLEMENTATION, LLVMGemm
from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.llvm.text.elements import WORD_METHODS, Element
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.measuring.reference import make_operands, reference
from seqtune.tuner.measuring.timing import prepare
from tests.support.devices import device_of
from tests.support.exactness import answer
from tests.support.llvm import needs_llvm, x86_assembly

pytestmark = needs_llvm
FAMILY = kernel("llvm.gemm_int8")
PROBLEMS = [Problem.make("gemm", dtype="int8", **sizes) for sizes in (
    {"m": 1, "n": 4, "k": 4}, {"m": 23, "n": 41, "k": 16}, {"m": 9, "n": 70, "k": 100, "trans_b": "yes"},
    {"m": 64, "n": 33, "k": 1064}, {"m": 7, "n": 129, "k": 72, "trans_b": "yes"})]
EACH = 14  # random configurations of a problem and device; with the default and three instruction sets more than 200
# The facts that make a device choose each method on x86 CPUs: its own for the first, if it has the instruction.
FACTS: dict[str, dict[str, Any]] = {
    "dots": {}, "pairs": {"extra": ()}, "numbers": {"extra": (), "instruction_set": "neon"}}


class As(LLVMGemm):
    """The implementation for another device, whose code this machine can run."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def source(self, problem: Problem, device: Device, configuration: Configuration, *rest: object) -> KernelSource:
        return super().source(problem, self.device, configuration)

    def launch(self, problem: Problem, device: Device, configuration: Configuration, *rest: object) -> Launch:
        return super().launch(problem, self.device, configuration)

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        return super().pack(problem, self.device, configuration, weights)


@pytest.mark.parametrize("device", [device for device in llvm.devices() if device.threads == 1 or not device.name.
                                    startswith("llvm:sse")], ids=lambda device: device.name)
@pytest.mark.parametrize("method", WORD_METHODS)
def test_every_sum_is_exact(device: Device, method: str) -> None:
    target = replace(device, **FACTS[method])
    if Element.of("int8", target).word_method != method:
        pytest.skip(f"{device.name} has no instructions to multiply words by {method}")
    family, backend = replace(FAMILY, implementation=As(target)), LLVMBackend(device)
    try:
        for number, problem in enumerate(PROBLEMS):
            operands = make_operands(problem, seed=number)
            expected = reference(problem, operands).astype(np.int32)
            space = SearchSpace(FAMILY, problem, device)
            chosen = [space.default, *space.sample(np.random.default_rng(number), EACH if method == "dots" else 4)]
            for configuration in chosen:
                output = answer(backend, family, problem, configuration, operands)
                assert output.dtype == np.int32
                np.testing.assert_array_equal(output, expected, configuration.brief())
    finally:
        backend.close()


@pytest.mark.parametrize("value", [-128, 127])
def test_the_largest_products_do_not_overflow(value: int) -> None:
    problem = Problem.make("gemm", m=5, n=16, k=131068, dtype="int8")
    device = next(device for device in llvm.devices() if device.threads == 1)
    operands = {"x": np.full((5, 131068), -128, np.int8), "weights": np.full((131068, 16), value, np.int8)}
    backend = LLVMBackend(device)
    try:
        output = answer(backend, FAMILY, problem, SearchSpace(FAMILY, problem, device).default, operands)
        assert (output == -128 * value * 131068).all()
    finally:
        backend.close()


def test_one_wrong_unit_in_a_large_sum_is_a_wrong_result() -> None:
    _, expected = prepare(PROBLEMS[3])
    assert expected.tolerance == 0
    assert expected.y.dtype == np.int32
    large = replace(expected, y=np.full_like(expected.y, 2**30), scale=float(2**30))
    assert large.error(large.y) == 0
    assert large.error(large.y + (np.arange(large.y.size, dtype=np.int32) == 7).reshape(large.y.shape)) > 0


def test_it_takes_no_epilogue() -> None:
    device = device_of("llvm")
    configuration = SearchSpace(FAMILY, PROBLEMS[1], device).default
    with pytest.raises(KernelError, match="stores plain sums"):
        IMPLEMENTATION.source(PROBLEMS[1], device, configuration, Fusion(Formula.of_activation("relu")))


@pytest.mark.parametrize(("features", "reason"), [
    ({"k": 6}, "4 must divide k"), ({"n": 3}, "at least 4 columns"), ({"bias": "yes"}, "without an epilogue"),
    ({"activation": "relu"}, "without an epilogue"), ({"trans_a": "yes"}, "must not be transposed"),
    ({"k": 131072}, "32 bits")])
def test_what_it_does_not_compute_is_refused_with_a_reason(features: dict[str, Any], reason: str) -> None:
    problem = Problem.make("gemm", **{"m": 8, "n": 8, "k": 8, "dtype": "int8", **features})
    assert reason in str(FAMILY.why_not(problem, device_of("llvm")))


def test_without_avx512_the_dots_are_those_of_avx_vnni() -> None:
    problem = Problem.make("gemm", m=20, n=64, k=64, dtype="int8")
    device = Device("llvm:avx2:1", "llvm", "alderlake", "avx2", vector_bits=256, extra=(("int8_dots", 1),))
    configuration = SearchSpace(FAMILY, problem, device).default
    text = x86_assembly(IMPLEMENTATION.source(problem, device, configuration), "alderlake")  # it has no AVX-512
    assert configuration["vector"] == 8
    assert re.search(r"\{vex\}\s+vpdpbusd\s.*%ymm", text)
    assert "zmm" not in text


def test_packed_words_hold_the_correction_where_a_factor_is_unsigned() -> None:
    problem = Problem.make("gemm", m=8, n=6, k=8, dtype="int8")
    device = replace(device_of("llvm"), extra=(("int8_dots", 1),))
    weights = make_operands(problem)["weights"]
    configuration = SearchSpace(FAMILY, problem, device).default
    packed = IMPLEMENTATION.pack(problem, device, configuration, weights).view(np.int32)
    lanes = packed.shape[-1]
    np.testing.assert_array_equal(packed[0, 0, 0], -128 * weights.sum(axis=0, dtype=np.int32)[:lanes])
    words = packed[0, 0, 1:].copy().view(np.int8).reshape(2, lanes, 4)
    np.testing.assert_array_equal(words.transpose(0, 2, 1).reshape(8, lanes), weights[:, :lanes])
