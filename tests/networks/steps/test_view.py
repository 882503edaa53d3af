"""Views: the same elements as NumPy's own views of the same buffer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from seqtune.errors import KernelError
from seqtune.networks.steps.view import View

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def elements(view: View, buffer: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.lib.stride_tricks.as_strided(buffer[view.offset:], view.shape, [8 * stride for stride in view.strides])


@given(SHAPES, st.data())
def test_permuted_sliced_and_expanded_views_show_what_numpy_shows(shape: list[int], data: st.DataObject) -> None:
    view = View.contiguous(shape, offset=3)
    buffer = np.arange(3 + view.size)
    array = buffer[3:].reshape(shape)
    for _ in range(3):
        axis = data.draw(st.integers(0, len(array.shape) - 1))
        begin = data.draw(st.integers(0, array.shape[axis] - 1))
        step = data.draw(st.integers(1, 3))
        view = view.sliced(axis, begin, array.shape[axis], step)
        array = array[(slice(None),) * axis + (slice(begin, None, step),)]
        order = data.draw(st.permutations(range(array.ndim)))
        view, array = view.permuted(order), array.transpose(order)
        wide = (2, *(4 if size == 1 else size for size in array.shape))
        assert np.array_equal(elements(view, buffer), array)
        assert np.array_equal(elements(view.expanded(wide), buffer), np.broadcast_to(array, wide))
        assert view.offset + view.extent <= buffer.size


@given(SHAPES, st.data())
def test_a_reshaped_view_shows_the_same_elements_or_says_that_it_needs_a_copy(
        shape: list[int], data: st.DataObject) -> None:
    view = View.contiguous(shape)
    buffer = np.arange(view.size)
    view = view.permuted(data.draw(st.permutations(range(len(shape)))))
    target = data.draw(st.permutations([*view.shape, 1]))
    array = elements(view, buffer)
    reshaped = view.reshaped(target)
    if reshaped is None:
        assert not view.is_contiguous
    else:
        assert np.array_equal(elements(reshaped, buffer), array.reshape(target))
    assert view.is_contiguous == (np.array_equal(array.ravel(), np.arange(view.size)))


def test_heads_are_split_and_merged_without_a_copy_where_that_is_possible() -> None:
    tokens = View.contiguous((128, 3 * 768)).sliced(1, 768, 1536)
    heads = tokens.reshaped((128, 12, 64))
    assert heads == View((128, 12, 64), (2304, 64, 1), 768)
    assert heads.permuted((1, 0, 2)).reshaped((12 * 128, 64)) is None
    assert heads.reshaped((128, 768)) == tokens
    assert View((0, 3), (3, 1)).reshaped((3, 0)) == View.contiguous((3, 0))


@pytest.mark.parametrize("mistake", [
    lambda view: view.permuted((0, 0)), lambda view: view.sliced(0, 1, 9), lambda view: view.expanded((3, 3)),
    lambda view: view.reshaped((7,)), lambda view: View((2,), (1, 1)), lambda view: View((2,), (-1,))])
def test_mistakes_are_named(mistake: object) -> None:
    with pytest.raises(KernelError):
        mistake(View.contiguous((2, 3)))  # type: ignore[operator]
