"""The llvm families of bf16: products, convolutions and depthwise convolutions of every kind, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import DeviceError, KernelError
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.llvm.fusion import Fusion
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.compiler import Compiler, instruction_sets
from seqtune.tuner.backends.llvm.threads import Threads
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.devices import device_of
from tests.support.exactness import check
from tests.support.llvm import needs_llvm
from tests.support.oddities import odd_problems

ABLE = [] if llvm.unavailable() else [device for device in llvm.devices() if device.names()["bf16_dots"]]
needs_dots = pytest.mark.skipif(not ABLE, reason="this CPU has no dot products of bf16 numbers")
pytestmark = needs_llvm

FAMILIES = ("llvm.gemm_bf16", "llvm.direct_bf16", "llvm.depthwise_bf16")
PAPER = replace(device_of("llvm"), extra=(("bf16_dots", 1),))
PADDING: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "layout": "NHWC"}
PROBLEMS = {
    "product": Problem.make("gemm", m=23, n=41, k=16, trans_b="yes", bias="yes", dtype="bf16"),
    "padded": Problem.make("conv2d", n=2, c=6, h=7, w=9, k=37, bias="yes", dtype="bf16", **PADDING),
    "grouped": Problem.make("conv2d", c=8, h=9, w=7, k=40, groups=2, stride_w=2, dtype="bf16", **PADDING),
    "depthwise": Problem.make("conv2d", n=2, c=21, h=9, w=11, k=21, groups=21, bias="yes", dtype="bf16", **PADDING)}
SINGLE = {  # the same in fp32
    name: Problem.make(problem.type, **{**dict(problem), "dtype": "fp32"}) for name, problem in PROBLEMS.items()}
RESIDUAL = Formula.of("add", 0, 1).then(Formula.of_activation("relu"))
POISON = 12352.0  # a number of bf16


@pytest.fixture
def backend() -> Iterator[LLVMBackend]:
    opened = LLVMBackend(ABLE[0])
    yield opened
    opened.close()


@pytest.fixture(params=instruction_sets())
def binder(request: pytest.FixtureRequest) -> Iterator[KernelBinder]:
    device = next(device for device in llvm.devices() if device.instruction_set == request.param)
    compiler = Compiler(device.instruction_set)
    threads = Threads(compiler, device.threads)
    yield KernelBinder(device, compiler, threads)
    threads.close()


def pitched(array: NDArray[Any], pitch: int, poison: float, dtype: str) -> NDArray[Any]:
    """The array's rows as elements, `pitch` from each other, with poison between them."""
    spread = np.full((*array.shape[:-1], pitch), poison, np.float32)
    spread[..., :array.shape[-1]] = array
    return encode(spread, dtype)


def fused(binder: KernelBinder, problem: Problem, configuration: Configuration, fusion: Fusion, x: Array, own: str
          ) -> tuple[Array, NDArray[np.float64]]:
    """The result and what is expected, where x lies `fusion.x_pitch` apart; nothing between y's rows changes."""
    operands = {**make_operands(problem, seed=3), "x": x}
    sums = reference(problem, operands)
    y_element, other_element = fusion.y_element or own, fusion.other_element or own
    other = decode(encode(np.random.default_rng(4).standard_normal(sums.shape, dtype=np.float32), other_element),
                   other_element)
    expected = fusion.formula(problem).numpy(sums, other)
    k = sums.shape[-1]
    given = pitched(x, fusion.x_pitch or x.shape[-1], np.nan, own)
    others = pitched(other, fusion.other_pitch or k, np.nan, other_element)
    y = pitched(np.full(sums.shape, np.nan), fusion.y_pitch or k, POISON, y_element)
    call = binder.bind(problem, configuration, operands["weights"], operands.get("bias"), fusion)
    call.with_fused(given.ctypes.data, others.ctypes.data, y.ctypes.data)
    result = decode(y, y_element)
    assert (result[..., k:] == POISON).all(), (problem.brief(), configuration.brief())
    return result[..., :k], expected


@needs_dots
@pytest.mark.parametrize("name", FAMILIES)
def test_odd_problems_are_right_all_over_the_space(backend: LLVMBackend, name: str) -> None:
    family, generator = kernel(name), np.random.default_rng(2)
    for number, problem in enumerate(odd_problems(family, backend.device, 5, seed=4)):
        space = SearchSpace(family, problem, backend.device)
        largest = int(np.argmax(space.columns()["accumulators"]))
        check(backend, family, problem, [space[number % len(space)], space[largest], *space.sample(generator, 1)])


@needs_dots
@pytest.mark.parametrize("y_element", ["bf16", "fp32"])
@pytest.mark.parametrize("other_element", ["bf16", "fp32"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_second_operand_and_the_result_have_elements_of_their_own(name: str, other_element: str, y_element: str
                                                                   ) -> None:
    problem, compiler = PROBLEMS[name], Compiler("avx512")
    threads = Threads(compiler, ABLE[0].threads)
    binder = KernelBinder(ABLE[0], compiler, threads)
    x = make_operands(problem, seed=3)["x"]
    c, k = x.shape[-1], reference(problem, make_operands(problem, seed=3)).shape[-1]
    for extra in (0, 3) if (other_element, y_element) == ("bf16", "bf16") else (3,):
        fusion = Fusion(RESIDUAL, c + extra, k + 2 * extra, k + extra, y_element=y_element, other_element=other_element)
        for family in kernels_for(problem, ABLE[0]):
            for configuration in SearchSpace(family, problem, ABLE[0]).sample(np.random.default_rng(extra), 1):
                result, expected = fused(binder, problem, configuration, fusion, x, "bf16")
                allowed = (2**-8 if y_element == "bf16" else 0) * np.abs(expected) + 1e-5 * np.abs(expected).max()
                assert (np.abs(result - expected) <= allowed).all(), (configuration.kernel, configuration.brief())
    threads.close()


@pytest.mark.parametrize("name", SINGLE)
def test_kernels_of_fp32_read_and_write_bf16_around_themselves_on_every_instruction_set(
        binder: KernelBinder, name: str) -> None:
    problem = SINGLE[name]
    fusion = Fusion(RESIDUAL, y_element="bf16", other_element="bf16")
    x = make_operands(problem, seed=3)["x"]
    for family in kernels_for(problem, binder.device):
        (configuration,) = SearchSpace(family, problem, binder.device).sample(np.random.default_rng(1), 1)
        if family.name == "llvm.winograd":
            with pytest.raises(KernelError, match="stores and adds fp32 only"):
                binder.bind(problem, configuration, make_operands(problem)["weights"], None, fusion)
            continue
        result, expected = fused(binder, problem, configuration, fusion, x, "fp32")
        allowed = 2**-8 * np.abs(expected) + 1e-5 * np.abs(expected).max()
        assert (np.abs(result - expected) <= allowed).all(), (configuration.kernel, configuration.brief())


@needs_dots
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_reaches_the_results_that_read_it_and_no_others(backend: LLVMBackend, bad: float) -> None:
    for problem in (PROBLEMS["product"], PROBLEMS["depthwise"]):
        operands = make_operands(problem)
        x = operands["x"].copy()
        x[(1,) * x.ndim] = bad
        (family,) = [family for family in kernels_for(problem, backend.device) if "direct" not in family.name]
        for configuration in SearchSpace(family, problem, backend.device).sample(np.random.default_rng(0), 3):
            executable = backend.build(problem, family, configuration)
            executable.load({**operands, "x": x})
            executable.poison()
            executable.run()
            with np.errstate(invalid="ignore"):
                expected = reference(problem, {**operands, "x": x})
            assert (np.isfinite(executable.outputs()["y"]) == np.isfinite(expected)).all()
            assert (np.isnan(executable.outputs()["y"]) == np.isnan(expected)).all()
            executable.close()


@pytest.mark.parametrize(("name", "features", "reason"), [
    ("llvm.gemm_bf16", {"trans_a": "yes"}, "A must not be transposed"),
    ("llvm.gemm_bf16", {"k": 17}, "k must be even"),
    ("llvm.gemm_bf16", {"dtype": "fp32"}, "bf16 only"),
    ("llvm.gemm_bf16", {"n": 3}, "at least 4 columns"),
    ("llvm.direct_bf16", {"c": 5}, "must be even"),
    ("llvm.direct_bf16", {"layout": "NCHW"}, "channels must be last"),
    ("llvm.depthwise_bf16", {"layout": "NCHW"}, "channels last")])
def test_a_refusal_says_the_reason(name: str, features: dict[str, Any], reason: str) -> None:
    base = PROBLEMS[{"gemm": "product", "direct": "padded", "depthwise": "depthwise"}[name[5:-5]]]
    assert kernel(name).why_not(base, PAPER) is None
    assert reason in str(kernel(name).why_not(Problem.make(base.type, **{**dict(base), **features}), PAPER))
    assert "device has no" in str(kernel(name).why_not(base, device_of("llvm")))


def test_a_device_of_a_better_cpu_is_refused() -> None:
    device = replace(llvm.devices()[-1], extra=(("bf16_dots", 1),))  # no CPU has them with its oldest instruction set
    with pytest.raises(DeviceError, match="no dot products of bf16"):
        LLVMBackend(device)
