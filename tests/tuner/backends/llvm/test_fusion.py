"""Fused kernels: epilogues, a second operand and pitches, in every llvm family that solves a problem."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array
from seqtune.kernels.llvm.fusion import NONE, FusingImplementation, Fusion
from seqtune.kernels.llvm.gemm import LLVMGemm
from seqtune.kernels.llvm.text.formula import ACTIVATIONS, IDENTITY, Formula
from seqtune.kernels.lookup import resolve
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.bound_kernels import KernelBinder
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.compiler import Compiler, instruction_sets
from seqtune.tuner.backends.llvm.threads import Threads
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm

POISON = 12345.0
PADDING: dict[str, int | str] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1}
CONVOLUTIONS: dict[str, dict[str, int | str]] = {
    "padded": {"n": 2, "c": 6, "h": 7, "w": 9, "k": 37, "bias": "yes", **PADDING},
    "pointwise": {"n": 2, "c": 8, "h": 5, "w": 7, "k": 25, "r": 1, "s": 1, "bias": "yes"},
    "grouped": {"c": 6, "h": 9, "w": 7, "k": 40, "groups": 2, "stride_w": 2, **PADDING},
    "few channels a group": {"n": 2, "c": 28, "h": 7, "w": 9, "k": 28, "groups": 7, "bias": "yes", **PADDING},
    "depthwise": {"n": 2, "c": 21, "h": 9, "w": 11, "k": 21, "groups": 21, "bias": "yes", **PADDING},
}
LAST = {name: Problem.make("conv2d", layout="NHWC", **features) for name, features in CONVOLUTIONS.items()}
FIRST = {name: Problem.make("conv2d", layout="NCHW", **features) for name, features in CONVOLUTIONS.items()}
PRODUCTS = {name: Problem.make("gemm", m=23, n=41, k=16, trans_b="yes", **features)
            for name, features in {"product": {"bias": "yes"}, "transposed": {"trans_a": "yes"}}.items()}
PITCHED = {**LAST, **PRODUCTS}

RESIDUAL = Formula.of("add", 0, 1).then(Formula.of_activation("relu"))
GATE = Formula(2, (("sigmoid", 0), ("mul", 1, 2)))


# on narrower instruction sets, make test fuses the families of `tests.support.guarded` alone
@pytest.fixture(scope="module", params=[*instruction_sets()[:1], *(
    pytest.param(name, marks=pytest.mark.anywhere) for name in instruction_sets()[1:])])
def binder(request: pytest.FixtureRequest) -> Iterator[KernelBinder]:
    device = next(device for device in llvm.devices() if device.instruction_set == request.param)
    compiler = Compiler(device.instruction_set)
    threads = Threads(compiler, device.threads)
    yield KernelBinder(device, compiler, threads)
    threads.close()


@pytest.fixture(scope="module")
def pair(binder: KernelBinder) -> Iterator[KernelBinder]:
    """The same instruction set on two threads, however many cores there are."""
    device = replace(binder.device, name=f"llvm:{binder.device.instruction_set}:2", threads=2, compute_units=2)
    compiler = Compiler(device.instruction_set)
    threads = Threads(compiler, 2)
    yield KernelBinder(device, compiler, threads)
    threads.close()


@lru_cache(maxsize=64)
def spaces(problem: Problem, device: Device) -> list[SearchSpace]:
    """The spaces of every family that solves the problem."""
    return [SearchSpace(family, problem, device) for family in kernels_for(problem, device)]


def choices(binder: KernelBinder, problem: Problem, seed: int, count: int = 1) -> Iterator[Configuration]:
    """Some random configurations of every family that solves the problem."""
    for space in spaces(problem, binder.device):
        yield from space.sample(np.random.default_rng(seed), count)


@lru_cache(maxsize=16)
def given(problem: Problem) -> tuple[Operands, NDArray[np.float64]]:
    """Operands, and the sums that the problem computes from them."""
    operands = make_operands(problem, seed=3)
    return operands, reference(problem, operands)


def apart(array: NDArray[np.floating], pitch: int | None, poison: float) -> Array:
    """The array's rows, the last axis, `pitch` floats from each other, with poison between them."""
    pitch = array.shape[-1] if pitch is None else pitch
    spread = np.full((*array.shape[:-1], pitch), poison, np.float32)
    spread[..., :array.shape[-1]] = array
    return spread


def run(binder: KernelBinder, problem: Problem, configuration: Configuration, fusion: Fusion, in_place: bool = False
        ) -> None:
    """Compare with the formula of the reference's sums; nothing between the rows of y changes."""
    operands, sums = given(problem)
    other = np.random.default_rng(4).standard_normal(sums.shape, dtype=np.float32)
    formula = fusion.formula(problem)
    expected = formula.numpy(sums) if formula.operands == 1 else formula.numpy(sums, other)
    x = apart(operands["x"], fusion.x_pitch, np.nan)
    y = apart(other if in_place else np.full_like(other, np.nan), fusion.y_pitch, POISON)
    others = y if in_place else apart(other, fusion.other_pitch, np.nan)
    call = binder.bind(problem, configuration, operands["weights"], operands.get("bias"), fusion)
    if fusion.has_other:
        call.with_fused(x.ctypes.data, others.ctypes.data, y.ctypes.data)
    else:
        call(x.ctypes.data, y.ctypes.data)
    name = f"{problem.brief()} {configuration.kernel} {configuration.brief()} {fusion}"
    result = y[..., :expected.shape[-1]]
    assert np.abs(result - expected).max() <= 2e-5 * max(1.0, np.abs(expected).max()), name
    assert (y[..., expected.shape[-1]:] == POISON).all(), name


def wide(problem: Problem, extra: int) -> Fusion:
    """Pitches of x, y and the second operand that leave room between rows."""
    operands, sums = given(problem)
    return Fusion(x_pitch=operands["x"].shape[-1] + extra, y_pitch=sums.shape[-1] + extra + 2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_an_epilogue(binder: KernelBinder, activation: str) -> None:
    fusion = Fusion(Formula.of_activation(activation))
    problem = (LAST["depthwise"], PRODUCTS["product"])[list(ACTIVATIONS).index(activation) % 2]  # by turns
    for configuration in choices(binder, problem, len(activation)):
        run(binder, problem, configuration, fusion)


@pytest.mark.parametrize("name", FIRST)
def test_channels_first_take_an_epilogue_of_the_sum_alone(binder: KernelBinder, name: str) -> None:
    for configuration in choices(binder, FIRST[name], 1):
        run(binder, FIRST[name], configuration, Fusion(Formula.of_activation("hardswish")))
        for fusion in (Fusion(RESIDUAL), Fusion(x_pitch=100), Fusion(y_pitch=100)):
            with pytest.raises(KernelError, match="channels last"):
                run(binder, FIRST[name], configuration, fusion)


@pytest.mark.parametrize("name", PITCHED)
def test_rows_may_lie_apart_and_nothing_between_them_is_written(binder: KernelBinder, name: str) -> None:
    for configuration in choices(binder, PITCHED[name], 2):
        for extra in (0, 13):
            run(binder, PITCHED[name], configuration, wide(PITCHED[name], extra))


@pytest.mark.parametrize("name", PITCHED)
@pytest.mark.parametrize("epilogue", [RESIDUAL, GATE], ids=["residual", "gate"])
def test_a_second_operand_is_read_where_y_is_stored(binder: KernelBinder, name: str, epilogue: Formula) -> None:
    for configuration in choices(binder, PITCHED[name], 3):
        fusion = replace(wide(PITCHED[name], 3), epilogue=epilogue)
        run(binder, PITCHED[name], configuration, replace(fusion, other_pitch=fusion.y_pitch))
        run(binder, PITCHED[name], configuration, Fusion(epilogue))


@pytest.mark.parametrize("name", PITCHED)
def test_y_may_overwrite_the_second_operand(binder: KernelBinder, name: str) -> None:
    for configuration in choices(binder, PITCHED[name], 5):
        fusion = replace(wide(PITCHED[name], 3), epilogue=RESIDUAL)
        run(binder, PITCHED[name], configuration, replace(fusion, other_pitch=fusion.y_pitch), in_place=True)


@pytest.mark.parametrize("name", PITCHED)
def test_one_row_of_the_second_operand_may_serve_all(binder: KernelBinder, name: str) -> None:
    problem = PITCHED[name]
    operands, sums = given(problem)
    scale = np.random.default_rng(1).standard_normal((sums.shape[-1],), dtype=np.float32)
    for configuration in choices(binder, problem, 6):
        y = np.full(sums.shape, np.nan, np.float32)
        call = binder.bind(problem, configuration, operands["weights"], operands.get("bias"),
                           Fusion(Formula.of("mul", 0, 1), other_pitch=0))
        call.with_fused(operands["x"].ctypes.data, scale.ctypes.data, y.ctypes.data)
        assert np.abs(y - sums * scale).max() <= 2e-5 * np.abs(sums * scale).max()


def test_an_epilogue_replaces_the_problem_s_activation(binder: KernelBinder) -> None:
    problem = Problem.make("gemm", m=5, n=16, k=8, activation="relu")
    plain = Problem.make("gemm", m=5, n=16, k=8)
    for configuration in choices(binder, problem, 7):
        operands = make_operands(problem)
        sums = reference(plain, operands)
        for fusion, expected in ((Fusion(IDENTITY), sums), (Fusion(x_pitch=8), np.maximum(sums, 0))):
            y = np.full(sums.shape, np.nan, np.float32)
            binder.bind(problem, configuration, operands["weights"], None, fusion)(
                operands["x"].ctypes.data, y.ctypes.data)
            assert np.abs(y - expected).max() < 1e-5


def test_weights_of_chained_kernels_are_prefetched_where_several_tiles_read_a_panel(binder: KernelBinder) -> None:
    for problem in (LAST["padded"], LAST["pointwise"], PRODUCTS["transposed"]):
        for configuration in choices(binder, problem, 6):
            run(binder, problem, configuration, replace(wide(problem, 1), chained=True))
            run(binder, problem, configuration, Fusion(RESIDUAL, chained=True), in_place=True)
    many_rows, one_row = (Problem.make("gemm", m=m, n=41, k=16, trans_b="yes") for m in (500, 1))
    for problem, prefetches in ((many_rows, True), (one_row, False)):
        device = replace(binder.device, threads=2)
        default = SearchSpace(kernel("llvm.gemm"), problem, device).default
        text = LLVMGemm().source(problem, device, default, Fusion(chained=True)).text
        assert ("llvm.prefetch" in text) == prefetches


ROWS = {
    "product": (Problem.make("gemm", m=24, n=96, k=16, trans_b="yes"), "llvm.gemm"),
    "image": (Problem.make("conv2d", layout="NHWC", c=8, h=12, w=16, k=70, r=1, s=1), "llvm.direct"),
    "grouped": (Problem.make("conv2d", layout="NHWC", c=64, h=12, w=16, k=64, groups=8, **PADDING), "llvm.grouped"),
    "depthwise": (Problem.make("conv2d", layout="NHWC", c=70, h=12, w=16, k=70, groups=70, **PADDING),
                  "llvm.depthwise"),
}


@pytest.mark.parametrize("name", ROWS)
def test_threads_of_a_chained_kernel_share_the_rows_of_an_image(pair: KernelBinder, name: str) -> None:
    problem, family = ROWS[name]
    device = pair.device
    choices = SearchSpace(kernel(family), problem, device).sample(np.random.default_rng(8), 60)
    implementation = resolve(str(kernel(family).implementation))
    assert isinstance(implementation, FusingImplementation)
    divided = [configuration for configuration in choices
               if implementation.launch(problem, device, configuration, Fusion(chained=True)).phases[-1].runs > 1]
    assert divided
    for configuration in divided[:3]:
        alone, chained = (implementation.launch(problem, device, configuration, fusion).phases[-1]
                          for fusion in (NONE, Fusion(chained=True)))
        assert (alone.runs, alone.tasks) == (1, chained.tasks)
        assert chained.tasks % (2 * chained.runs) == 0  # each thread computes half of a run
        run(pair, problem, configuration, Fusion(RESIDUAL, chained=True), in_place=True)
        run(pair, problem, configuration, replace(wide(problem, 1), chained=True))
        if family != "llvm.gemm":
            images = Problem.make("conv2d", **{**dict(problem), "n": 4})
            assert implementation.launch(images, device, configuration, Fusion(chained=True)).phases[-1].runs == 1


def test_fusions_that_cannot_be_are_refused_in_one_line(binder: KernelBinder) -> None:
    with pytest.raises(KernelError, match="at most one further operand"):
        Fusion(Formula(3, (("add", 0, 1), ("add", 2, 3))))
    with pytest.raises(KernelError, match="two operands"):
        Fusion(Formula.of_activation("relu"), other_pitch=8)
    problem = PRODUCTS["product"]
    configuration, weights = next(choices(binder, problem, 0)), given(problem)[0]["weights"]
    for fusion, found in ((Fusion(x_pitch=15), "x_pitch=15 is less than the 16 floats"),
                          (Fusion(y_pitch=40), "y_pitch=40 is less than the 41 floats"),
                          (Fusion(RESIDUAL, other_pitch=40), "other_pitch=40 is less than the 41 floats")):
        with pytest.raises(KernelError, match=found):
            binder.bind(problem, configuration, weights, None, fusion)
