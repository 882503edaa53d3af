"""Rows: products, attention and functions of rows are right, and each row has the same bits wherever it is computed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.predictor.translator import rows
from seqtune.predictor.translator.product_text import SIGNATURES, text
from seqtune.predictor.translator.rows import Matrix, attend, centred, dots, gelu, unit
from seqtune.tuner.backends.llvm import compiler
from seqtune.tuner.backends.llvm.compiled import address, compiled

Floats = NDArray[np.float32]
COUNTS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 64, 300)
SIZES = ((1, 1), (3, 5), (16, 32), (17, 33), (30, 128), (100, 31), (128, 384), (48, 1))
GENERATOR = np.random.default_rng(7)


def draw(*shape: int) -> Floats:
    return GENERATOR.normal(size=shape).astype(np.float32)


def shifted(array: Floats, floats: int) -> Floats:
    """A copy whose address is `floats` floats behind a cache line's begin."""
    raw = np.empty(array.size + 64, np.float32)
    begin = -raw.ctypes.data % 64 // 4 + floats
    copy = raw[begin:begin + array.size].reshape(array.shape)
    copy[...] = array
    return copy


@pytest.mark.parametrize(("depth", "columns"), SIZES)
@pytest.mark.parametrize("count", COUNTS)
def test_a_product_is_that_of_doubles(count: int, depth: int, columns: int) -> None:
    x, weight, bias = draw(count, depth), draw(depth, columns), draw(columns)
    wanted = x.astype(np.float64) @ weight.astype(np.float64) + bias
    matrix = Matrix(weight, bias)
    assert matrix.multiply(x) == pytest.approx(wanted, abs=1e-6 * (depth + 4))
    length = np.sqrt((x.astype(np.float64)**2).sum(axis=1, keepdims=True) + depth * 1e-5)
    scaled = (x / length) @ weight.astype(np.float64) + bias
    assert matrix.multiply(x, unit=True) == pytest.approx(scaled, abs=2e-6 * (math.sqrt(depth) + 4))
    np.testing.assert_array_equal(matrix.multiply(x, gelu=True), gelu(matrix.multiply(x)))
    sums = draw(count, columns)
    added = sums + matrix.multiply(x)
    matrix.add_to(sums, x)
    np.testing.assert_array_equal(sums, added)


def test_a_product_without_inputs_is_the_offset() -> None:
    matrix = Matrix(np.zeros((0, 3), np.float32), np.array([1, 2, 3], np.float32))
    np.testing.assert_array_equal(matrix.multiply(draw(2, 0)), [[1, 2, 3], [1, 2, 3]])
    sums = np.ones((1, 3), np.float32)
    matrix.add_to(sums, draw(1, 0))
    np.testing.assert_array_equal(sums, [[2, 3, 4]])


@pytest.mark.parametrize(("depth", "columns"), SIZES)
def test_a_row_has_the_same_bits_among_any_others_at_any_address(depth: int, columns: int) -> None:
    x, weight, bias = draw(300, depth), draw(depth, columns), draw(columns)
    whole = Matrix(weight, bias).multiply(x, unit=True, gelu=True)
    for begin, end in ((0, 1), (1, 8), (5, 21), (36, 100), (299, 300)):
        for floats in (0, 1, 5):
            matrix = Matrix(shifted(weight, floats), shifted(bias, floats))
            part = matrix.multiply(shifted(x[begin:end], floats), unit=True, gelu=True)
            np.testing.assert_array_equal(part, whole[begin:end])


def test_rows_may_lie_apart_and_columns_anyhow() -> None:
    x, matrix = draw(9, 20), Matrix(draw(8, 5))
    np.testing.assert_array_equal(matrix.multiply(x[:, 3:11]), matrix.multiply(x[:, 3:11].copy()))
    np.testing.assert_array_equal(matrix.multiply(x[:8].T[:, :8]), matrix.multiply(x[:8].T[:, :8].copy()))
    np.testing.assert_array_equal(dots(x[:, 1:9], x[:, 12:]), dots(x[:, 1:9].copy(), x[:, 12:].copy()))


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 128, 200])
def test_functions_of_rows_are_those_of_doubles(width: int) -> None:
    x, y = draw(5, width), draw(5, width)
    exact, other = x.astype(np.float64), y.astype(np.float64)
    assert unit(x) == pytest.approx(exact / np.sqrt((exact**2).sum(axis=1, keepdims=True) + width * 1e-5), abs=1e-6)
    assert centred(x) == pytest.approx(exact - exact.mean(axis=1, keepdims=True), abs=1e-6)
    assert dots(x, y) == pytest.approx((exact * other).sum(axis=1), abs=1e-6 * width + 1e-6)
    normal = np.array([[0.5 * (1 + math.erf(value / math.sqrt(2))) for value in row] for row in exact.tolist()])
    assert gelu(x) == pytest.approx(exact * normal, abs=1e-6)
    for function in (unit, centred, gelu):
        np.testing.assert_array_equal(function(shifted(x[2:3], 3)), function(x)[2:3])
        assert function(x[:0]).shape == (0, width)
    np.testing.assert_array_equal(dots(shifted(x[2:3], 3), y[2:3]), dots(x, y)[2:3])


@pytest.mark.parametrize(("heads", "size"), [(1, 1), (2, 8), (4, 32), (3, 17)])
def test_attention_is_that_of_doubles_and_sees_only_its_own_positions(heads: int, size: int) -> None:
    width, counts = heads * size, np.array([1, 5, 16, 17, 40, 3])
    starts = np.array([0, 1, 6, 2, 0, 37])
    query, pairs = draw(len(counts), width), draw(40, 2 * width)
    attended = attend(query, pairs, starts, counts, heads)
    for row, (start, count) in enumerate(zip(starts.tolist(), counts.tolist(), strict=True)):
        own = pairs[start:start + count].astype(np.float64)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = own[:, part] @ query[row, part].astype(np.float64)
            weights = np.exp(scores - scores.max())
            wanted = weights @ own[:, width:][:, part] / weights.sum()
            assert attended[row, part] == pytest.approx(wanted, abs=3e-6 * (1 + np.abs(scores).max()))
        others = np.full_like(pairs, np.nan)
        others[start:start + count] = pairs[start:start + count]
        alone = attend(query[row:row + 1], shifted(others, 3), starts[row:row + 1], counts[row:row + 1], heads)
        np.testing.assert_array_equal(alone[0], attended[row])


@pytest.mark.parametrize("function", [unit, centred, gelu, lambda x: Matrix(np.eye(20, dtype=np.float32)).multiply(x),
                                      lambda x: attend(x, np.hstack([x, x]), np.arange(3), np.ones(3, int), 2),
                                      lambda x: dots(x, x)])
def test_what_is_no_number_stays_none_in_its_row_alone(function: Callable[[Floats], Floats]) -> None:
    x = draw(3, 20)
    clean = function(x)
    x[1, 4] = np.nan
    result = function(x)
    assert np.isnan(result[1]).any()
    np.testing.assert_array_equal(result[[0, 2]], clean[[0, 2]])


@pytest.mark.parametrize("name", compiler.instruction_sets())
def test_every_instruction_set_with_the_fused_multiply_add_gives_the_same_bits(
        name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, matrix = draw(11, 100), Matrix(draw(100, 70), draw(70))
    starts, counts = np.zeros(11, int), np.arange(1, 12)

    def results() -> list[Floats]:
        return [matrix.multiply(x, unit=True, gelu=True), attend(x[:, :32], x[:, 32:96], starts, counts, 2),
                unit(x), centred(x), dots(x, x)]

    usual = results()
    functions = compiled(text, SIGNATURES, name)
    monkeypatch.setattr(rows, "_functions", lambda: functions)
    fused = name not in ("sse",)
    for one, other in zip(usual, results(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0 if fused else 1e-4, atol=0 if fused else 1e-5)


@pytest.mark.parametrize("array", [draw(3, 4), draw(8, 6)[2:, 1:], np.zeros(0), np.broadcast_to(np.float32(1), (2, 2))])
def test_the_address_of_an_array_is_that_of_its_first_number(array: NDArray[np.generic]) -> None:
    assert address(array) == array.ctypes.data
