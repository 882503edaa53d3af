"""Gathered rows beside NumPy, on every instruction set of this CPU; indices outside the table read nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.formula import IDENTITY, Formula
from seqtune.networks.steps.gather import gather
from seqtune.networks.steps.view import View
from tests.support.steps.runs import WIDTHS, Floats, elements, filled, run

FLAG = View.contiguous((1,))


def gathered(width: tuple[str, int], table: View, rows: Floats, indices: NDArray[np.int64],
             others: list[tuple[View, Floats]] | None = None, after: Formula = IDENTITY) -> tuple[Floats, int]:
    """The rows, and the flag."""
    others = others or []
    view = View(indices.shape, tuple(2 * stride for stride in View.contiguous(indices.shape).strides))
    out, flag = View.contiguous((*indices.shape, table.shape[1] + 3)), np.zeros(1, np.int64)
    out = out.sliced(indices.ndim, 1, table.shape[1] + 1)
    step = gather(out, table, view, [other for other, _ in others], width[1], after)
    y = run(step, width[0], out, [table, view, *(other for other, _ in others), FLAG],
            [filled(table, rows), indices, *(filled(*other) for other in others), flag])
    return y, int(flag[0])


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize(("table", "shape"), [
    (View.contiguous((50, 64)), (2, 7)), (View.contiguous((9, 37)), (100,)), (View.contiguous((3, 1)), (4, 1)),
    (View.contiguous((20, 50)).sliced(1, 3, 40), (300,)), (View.contiguous((24, 30)).permuted((1, 0)), (3, 5)),
    (View.contiguous((5, 8)), (0,))], ids=str)
def test_rows_are_those_of_the_indices(table: View, shape: tuple[int, ...], width: tuple[str, int]) -> None:
    generator = np.random.default_rng(0)
    rows = generator.standard_normal(table.shape).astype(np.float32)
    indices = generator.integers(0, table.shape[0], shape)
    y, flag = gathered(width, table, rows, indices)
    assert np.array_equal(y, rows[indices])
    assert flag == 0


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_an_index_outside_the_table_sets_the_flag_and_gives_nan(width: tuple[str, int]) -> None:
    table = View.contiguous((6, 20))
    rows = np.random.default_rng(0).standard_normal((6, 20)).astype(np.float32)
    for wrong in (6, -1, 2 ** 62, -2 ** 63):
        indices = np.array([0, wrong, 5])
        y, flag = gathered(width, table, rows, indices)
        assert flag == 1
        assert np.isnan(y[1]).all()
        assert np.array_equal(y[::2], rows[[0, 5]])


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_positions_are_added_to_embeddings(width: tuple[str, int]) -> None:
    table = View.contiguous((30, 44))
    positions = View.contiguous((9, 44)).expanded((2, 9, 44))
    generator = np.random.default_rng(0)
    rows = generator.standard_normal(table.shape).astype(np.float32)
    added = generator.standard_normal((9, 44)).astype(np.float32)
    indices = generator.integers(0, 30, (2, 9))
    y, _ = gathered(width, table, rows, indices, [(positions, np.broadcast_to(added, (2, 9, 44)))],
                    Formula.of("add", 0, 1))
    assert np.array_equal(y, rows[indices] + added)
    assert elements(positions, filled(positions, added)).shape == y.shape
