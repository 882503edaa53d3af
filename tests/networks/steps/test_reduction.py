"""Reductions beside NumPy in fp64, on every instruction set of this CPU."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqtune.kernels.llvm.text.formula import IDENTITY, Formula
from seqtune.networks.steps.reduction import KINDS, reduction
from seqtune.networks.steps.view import View
from tests.support.steps.runs import WIDTHS, elements, run

SQUARES = Formula.of("mul", 0, 0)
PRODUCT = Formula.of("mul", 0, 1)


def check(kind: str, view: View, axes: tuple[int, ...], width: tuple[str, int], before: Formula = IDENTITY) -> None:
    """Reduce random numbers to an output with gaps, and compare with NumPy."""
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(view.shape))
    out = View.contiguous((*kept[:-1], kept[-1] + 2)).sliced(len(kept) - 1, 1, kept[-1] + 1)
    generator = np.random.default_rng(len(axes))
    buffers = [generator.standard_normal(view.offset + view.extent).astype(np.float32)
               for _ in range(before.operands)]
    x = before.numpy(*(elements(view, buffer) for buffer in buffers))
    expected = getattr(np, kind)(x, axis=axes, keepdims=True)
    views = [view] * before.operands
    y = run(reduction(kind, out, views, axes, width[1], before), width[0], out, views, buffers)
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5 * np.sqrt(x.size / max(1, y.size)))


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_columns_and_everything_are_reduced(kind: str, width: tuple[str, int]) -> None:
    for view in (View.contiguous((5, 37)), View.contiguous((37, 70)), View.contiguous((3, 200)).sliced(1, 3, 150),
                 View.contiguous((1, 1)), View.contiguous((100, 1)), View.contiguous((1, 131))):
        for axes in ((0,), (1,), (0, 1)):
            check(kind, view, axes, width)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
@pytest.mark.parametrize(("view", "axes"), [
    (View.contiguous((2, 7, 7, 40)), (1, 2)), (View.contiguous((2, 40, 7, 7)), (2, 3)),
    (View.contiguous((2, 7, 7, 40)).permuted((0, 3, 1, 2)), (2, 3)), (View.contiguous((2, 9, 5, 6)), (0, 2, 3)),
    (View.contiguous((2, 9, 5, 6)), (1, 3)), (View.contiguous((3, 4, 5, 6)).permuted((3, 1, 0, 2)), (0, 2)),
    (View.contiguous((1, 60, 60, 24)), (1, 2)), (View.contiguous((1, 8, 60, 64)), (2, 3)),
    (View.contiguous((4, 20, 50)).sliced(2, 1, 49, 3), (0, 2)), (View.contiguous((70_000,)), (0,)),
    (View.contiguous((7, 1)).expanded((7, 30)), (1,)), (View.contiguous((1, 30)).expanded((7, 30)), (0,))], ids=str)
def test_any_axes_of_any_view_are_reduced(view: View, axes: tuple[int, ...], width: tuple[str, int]) -> None:
    check("mean", view, axes, width, SQUARES)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_reductions_of_random_views(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 17]), min_size=1, max_size=4))
    view = View.contiguous(shape).permuted(data.draw(st.permutations(range(len(shape)))))
    axes = data.draw(st.sets(st.integers(0, len(shape) - 1)))
    check(data.draw(st.sampled_from(KINDS)), view, tuple(axes), data.draw(st.sampled_from(WIDTHS)), PRODUCT)


@pytest.mark.parametrize("width", WIDTHS, ids=str)
def test_nan_and_infinity_reach_the_results(width: tuple[str, int]) -> None:
    x = np.ones((6, 35), np.float32)
    x[0, 34], x[1, 3], x[2, 0], x[3] = np.nan, np.inf, -np.inf, -np.inf
    x[4, 3:5] = np.inf, -np.inf
    for axes, array in (((1,), x), ((0,), np.ascontiguousarray(x.T))):
        view = View.contiguous(array.shape)
        out = View.contiguous(tuple(1 if axis in axes else size for axis, size in enumerate(array.shape)))
        for kind in KINDS:
            y = run(reduction(kind, out, [view], axes, width[1]), width[0], out, [view], [array.ravel()])
            with np.errstate(invalid="ignore"):
                expected = getattr(np, kind)(array, axis=axes, keepdims=True)
            assert np.allclose(y, expected, equal_nan=True), kind


def test_few_results_of_large_images_are_computed_by_many_tasks_without_a_trace_between() -> None:
    image, out = View.contiguous((1, 112, 112, 16)), View.contiguous((1, 1, 1, 16))
    step = reduction("mean", out, [image], (1, 2), 16)
    assert [phase.tasks for phase in step.launch.phases] == [16, 1]
    assert step.launch.workspace == 256
    small = reduction("mean", View.contiguous((1, 1, 1, 960)), [View.contiguous((1, 7, 7, 960))], (1, 2), 16)
    assert len(small.launch.phases) == 1
    x = np.random.default_rng(0).random(image.size, dtype=np.float32)
    for instruction_set, lanes in WIDTHS:
        y = run(reduction("mean", out, [image], (1, 2), lanes), instruction_set, out, [image], [x])
        assert np.allclose(y.ravel(), x.reshape(-1, 16).mean(0, dtype=np.float64), rtol=1e-5)
