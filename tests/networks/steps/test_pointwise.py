"""Pointwise steps beside NumPy: broadcast, transposed, sliced and in place, on every instruction set of this CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqtune.errors import KernelError
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.view import View
from tests.support.steps.runs import WIDTHS, elements, filled, run

SUM = Formula(2, (("mul", 0, 0.5), ("add", 2, 1)))


def check(formula: Formula, out: View, operands: list[View], width: tuple[str, int], seed: int = 0) -> None:
    """Run the formula on random numbers and compare it with NumPy."""
    generator = np.random.default_rng(seed)
    buffers = [generator.standard_normal(view.offset + view.extent + 3).astype(np.float32) for view in operands]
    expected = formula.numpy(*(elements(view, buffer) for view, buffer in zip(operands, buffers, strict=True)))
    y = run(pointwise(formula, out, operands, width[1]), width[0], out, operands, buffers)
    assert np.allclose(y, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("size", [0, 1, 3, 16, 17, 31, 64, 65, 129, 4097, 10_000])
def test_every_size_is_computed_and_nothing_else_is_written(size: int, width: tuple[str, int]) -> None:
    check(SUM, View.contiguous((size,)), [View.contiguous((size,)), View.contiguous((size,), 5)], width)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize(("out", "operands"), [
    (View.contiguous((2, 5, 7, 24)), [View.contiguous((2, 5, 7, 24)), View.contiguous((24,)).expanded((2, 5, 7, 24))]),
    (View.contiguous((3, 50)), [View.contiguous((3, 50)), View.contiguous((3, 1)).expanded((3, 50))]),
    (View.contiguous((2, 30, 40)).sliced(2, 8, 33), [View.contiguous((2, 30, 25)), View((2, 30, 25), (0, 0, 0), 2)]),
    (View.contiguous((33, 50)), [View.contiguous((50, 33)).permuted((1, 0)), View.contiguous((33, 50))]),
    (View.contiguous((2, 32, 48)), [View.contiguous((2, 48, 32)).permuted((0, 2, 1)),
                                    View.contiguous((48,)).expanded((2, 32, 48))]),
    (View.contiguous((2, 49, 3)), [View.contiguous((2, 3, 49)).permuted((0, 2, 1)), View.contiguous((2, 49, 3))]),
    (View.contiguous((2, 300, 5)).permuted((0, 2, 1)), [View.contiguous((2, 5, 300)), View.contiguous((2, 5, 300))]),
    (View.contiguous((6, 7, 2, 20)).permuted((0, 1, 3, 2)), [View.contiguous((6, 7, 20, 2))] * 2),
    (View.contiguous((9, 40)).sliced(1, 1, 40, 2), [View.contiguous((9, 60)).sliced(1, 0, 60, 3)] * 2),
    (View.contiguous((8, 7, 8, 7, 9)), [View.contiguous((8, 8, 7, 7, 9)).permuted((0, 2, 1, 3, 4))] * 2),
    (View.contiguous((1,)), [View.contiguous((1,)), View((1,), (0,))]),
    (View.contiguous((70, 66)), [View.contiguous((66, 70)).permuted((1, 0)),
                                 View.contiguous((66, 70)).permuted((1, 0))]),
], ids=str)
def test_views_of_every_kind_are_computed(out: View, operands: list[View], width: tuple[str, int]) -> None:
    check(SUM, out, operands, width)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_random_views_are_computed(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 16, 19]), min_size=1, max_size=4)))

    def view(broadcast: bool) -> View:
        order = data.draw(st.permutations(range(len(shape))))
        wide = [shape[index] + data.draw(st.integers(0, 2)) for index in order]
        chosen = View.contiguous(wide, data.draw(st.integers(0, 3)))
        for axis, index in enumerate(order):
            chosen = chosen.sliced(axis, 0, 1 if broadcast and data.draw(st.booleans()) else shape[index])
        return chosen.permuted([order.index(index) for index in range(len(shape))]).expanded(shape)

    check(SUM, view(False), [view(True), view(True)], data.draw(st.sampled_from(WIDTHS)))


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_the_output_may_be_an_operand(width: tuple[str, int]) -> None:
    for view in (View.contiguous((3, 41)), View.contiguous((41, 9)).permuted((1, 0)).sliced(0, 2, 9)):
        x = np.random.default_rng(1).standard_normal(view.shape)
        buffer = filled(view, x)
        other = View.contiguous(view.shape)
        y = run(pointwise(SUM, view, [view, other], width[1]), width[0], view, [view, other],
                [buffer, filled(other, x + 1)], into=buffer)
        assert np.allclose(y, 1.5 * x + 1, rtol=1e-6, atol=1e-6)


def test_a_residual_sum_in_place_of_a_transposed_operand_is_right_at_the_edges_of_tiles() -> None:
    out, turned = View.contiguous((37, 53)), View.contiguous((53, 37)).permuted((1, 0))
    x, other = np.random.default_rng(0).standard_normal((2, 37, 53))
    for instruction_set, lanes in WIDTHS:
        buffer = filled(out, x)
        y = run(pointwise(SUM, out, [turned, out], lanes), instruction_set, out, [turned, out],
                [filled(turned, other), buffer], into=buffer)
        assert np.allclose(y, 0.5 * other + x, rtol=1e-6, atol=1e-6)


def test_nan_and_infinity_pass_through() -> None:
    view, x = View.contiguous((19,)), np.ones(19, np.float32)
    x[[0, 5, 17]], x[[1, 18]] = np.nan, (np.inf, -np.inf)
    for instruction_set, lanes in WIDTHS:
        for formula in (Formula.of_activation("relu6"), Formula.of_activation("silu"), IDENTITY):
            y = run(pointwise(formula, view, [view], lanes), instruction_set, view, [view], [filled(view, x)])
            assert np.allclose(y, formula.numpy(x), rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("groups", [2, 3, 4])
def test_groups_of_channels_are_shuffled(groups: int, width: tuple[str, int]) -> None:
    for channels in (1, 5, 16, 58):
        wide = View.contiguous((6, groups, channels))
        turned, out = wide.permuted((0, 2, 1)), View.contiguous((6, channels, groups))
        check(IDENTITY, out, [turned], width)
        check(SUM, out, [turned, View.contiguous((6, channels, groups))], width)
        check(SUM, out, [turned, View((6, channels, groups), (1, 0, 0))], width)


@pytest.mark.parametrize(("out", "operand"), [
    (View.contiguous((2, 3)), View.contiguous((3, 2))), (View((2, 3), (0, 1)), View.contiguous((2, 3))),
    (View((4, 4), (2, 1)), View.contiguous((4, 4)))])
def test_wrong_views_are_refused(out: View, operand: View) -> None:
    with pytest.raises(KernelError):
        pointwise(IDENTITY, out, [operand], 8)
