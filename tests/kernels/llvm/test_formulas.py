"""Formulas: what their code computes beside NumPy in fp64, on every instruction set of this CPU."""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.formula import ACTIVATIONS, IDENTITY, Formula, write
from seqtune.kernels.llvm.text.vectors import declare_math
from seqtune.kernels.llvm.text.writer import Writer, declarations
from seqtune.tuner.backends.llvm.compiler import INSTRUCTION_SETS, Compiler, instruction_sets
from tests.support.installation.optional import needs

WIDTHS = [(name, lanes) for name in instruction_sets() for lanes in (16, 8, 4, 1)
          if lanes == 1 or lanes * 32 == INSTRUCTION_SETS[name].vector_bits]
SPECIAL = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1.2e-38, np.inf, -np.inf, np.nan, 3e38, -3e38, 88.7, 88.8,
                    -87.3, -87.4, -88, -103, -104, -105, 1, -1, 9.02, -9.02, 3.92, 17.4, 20.0], np.float32)
BINARY = ("add", "sub", "mul", "div", "max", "min", "lt", "le", "gt", "ge", "eq", "ne")
UNARY = ("neg", "abs", "relu", "sqrt", "rsqrt", "reciprocal", "floor")
SMALLEST = 2.0 ** -126  # the smallest normal number

compiler = lru_cache(Compiler)


def numbers(seed: int = 0) -> NDArray[np.float32]:
    """Special numbers, ordinary, small and large ones; a multiple of 16."""
    generator = np.random.default_rng(seed)
    drawn = [5 * generator.standard_normal(997), 1e-3 * generator.standard_normal(500), np.linspace(-120, 120, 1000)]
    return np.concatenate([SPECIAL, *drawn]).astype(np.float32)[:2512]


def run(instruction_set: str, lanes: int, formula: Formula, *arrays: NDArray[np.float32]) -> NDArray[np.float32]:
    """Apply the formula's code to arrays of one size, a multiple of the lanes."""
    writer, kind = Writer(), f"<{lanes} x float>"
    operands = [f"%x{number}" for number in range(formula.operands)]
    with writer.loop(0, "%count", lanes) as index:
        values = [writer.load(kind, writer.at(operand, index)) for operand in operands]
        writer.store(kind, write(writer, lanes, formula, values), writer.at("%y", index))
    function = writer.function(f"void @apply(i64 %count, ptr %y, {', '.join(f'ptr {name}' for name in operands)})")
    module, _ = compiler(instruction_set).build("\n".join([declarations(lanes), declare_math(lanes), function]))
    y = np.full_like(arrays[0], 7.0)
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(arrays)))(module.address("apply"))
    call(y.size, y.ctypes.data, *(array.ctypes.data for array in arrays))
    return y


def assert_close(y: NDArray[np.float32], expected: NDArray[np.float64], tolerance: float, floor: float) -> None:
    """NaNs and infinities agree, and finite numbers within `tolerance` relative, plus `floor`."""
    with np.errstate(over="ignore"):
        rounded = expected.astype(np.float32)
    assert np.array_equal(np.isnan(y), np.isnan(rounded))
    assert np.array_equal(y[np.isinf(rounded)], rounded[np.isinf(rounded)])
    finite = np.isfinite(rounded)
    y, expected = y[finite], expected[finite]
    assert (np.abs(y - expected) <= tolerance * np.abs(expected) + floor).all()


@pytest.mark.parametrize(("instruction_set", "lanes"), WIDTHS)
@pytest.mark.parametrize("name", ["exp", "expm1", "log", "log1p", "tanh", "erf", "sigmoid"])
def test_functions_are_precise_and_right_at_their_limits(name: str, instruction_set: str, lanes: int) -> None:
    x, formula = numbers(), Formula.of(name, 0)
    x[-3:] = 88.4, 88.72, 88.73  # e^x is the largest fp32 at 88.7228
    y = run(instruction_set, lanes, formula, x)
    assert_close(y, formula.numpy(x), 5e-7, SMALLEST if name == "sigmoid" else 2e-45)
    if name in ("expm1", "log1p", "tanh", "erf"):
        assert np.array_equal(np.signbit(y[:6]), np.signbit(x[:6]))  # zeros and denormals keep their sign


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_compute_their_definition(name: str) -> None:
    instruction_set, lanes = WIDTHS[0]
    x, formula = numbers(1), Formula.of_activation(name)
    x = np.where(np.abs(x) > 1e30, np.float32(1), x)  # products overflow where fp64's do not
    y = run(instruction_set, lanes, formula, x)
    assert_close(y, formula.numpy(x), 1e-6, 2e-6)


@needs("torch")
def test_activations_are_those_of_pytorch() -> None:
    import torch

    functional = torch.nn.functional
    named = {"gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"), "none": lambda x: x,
             "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x)}
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    for name in ACTIVATIONS:
        expected = named.get(name) or getattr(functional, name)
        computed = Formula.of_activation(name).numpy(x.numpy())
        assert np.abs(computed - expected(x).numpy()).max() < 1e-8, name
    computed = Formula.of_activation("elu", 1.6, 1.05).numpy(x.numpy())
    assert np.abs(computed - 1.05 * functional.elu(x, 1.6).numpy()).max() < 1e-12


@pytest.mark.parametrize(("instruction_set", "lanes"), WIDTHS)
@pytest.mark.parametrize("formula", [
    *(Formula.of(name, 0, 1) for name in BINARY), *(Formula.of(name, 0) for name in UNARY),
    Formula.of("clamp", 0, -1.0, 2.0), Formula.of("pow", 0, 3.0), Formula.of("where", 0, 1, -2.0)],
    ids=lambda formula: str(formula.lines[0][0]))
def test_arithmetic_and_comparisons_treat_nan_and_infinity_as_numpy_does(
        formula: Formula, instruction_set: str, lanes: int) -> None:
    arrays = [numbers(), np.roll(numbers(), 5)][:formula.operands]
    y = run(instruction_set, lanes, formula, *arrays)
    assert_close(y, formula.numpy(*arrays), 4e-7, 2e-45)


def test_powers_of_negative_numbers_follow_the_sign() -> None:
    x = np.array([-2, 2, -2, -3, 0, 5, -1.5, 1, *[-np.inf] * 8], np.float32)
    y = np.array([3, 0.5, 0.5, 2, 3, 0, -2, 9, 2.3, -2.3, 3, -3, 2, 0, 0.5, -0.5], np.float32)
    formula = Formula.of("pow", 0, 1)
    assert_close(run(*WIDTHS[0], formula, x, y), formula.numpy(x, y), 1e-5, 0.0)


def test_a_composition_computes_one_formula_after_the_other() -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    scaled, joined = Formula(2, (("mul", 0, 1), ("add", 2, 0.5))), Formula(2, (("sub", 0, 1), ("tanh", 2)))
    first = scaled.then(joined)
    assert first.operands == 3
    assert np.array_equal(first.numpy(x, y, z), joined.numpy(scaled.numpy(x, y), z))
    second = scaled.then(joined, operand=1)
    assert np.array_equal(second.numpy(x, y, z), joined.numpy(z, scaled.numpy(x, y)))
    assert_close(run(*WIDTHS[0], second, x, y, z), second.numpy(x, y, z), 1e-6, 1e-6)
    assert IDENTITY.then(scaled) == scaled == scaled.then(IDENTITY)
