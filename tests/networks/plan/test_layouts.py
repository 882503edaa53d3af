"""Layouts: pitches of images and rows, images of tokens, and parts that are written in place."""

from __future__ import annotations

from seqtune.networks.nodes import Concatenation
from seqtune.networks.plan.layouts import Layouts, Part, channels_last, image_pitch, row_pitch
from seqtune.networks.steps.view import View
from tests.support.networks.nodes import convolution, operand


def test_slices_of_images_and_of_rows_have_a_pitch() -> None:
    image = channels_last((2, 6, 4, 5))
    assert image_pitch(image) == 6
    assert image_pitch(image.sliced(1, 2, 5)) == 6
    assert image_pitch(View.contiguous((2, 6, 4, 5))) is None
    assert image_pitch(image.sliced(3, 0, 4)) is None  # pixels apart
    assert image_pitch(View.contiguous((1, 6, 1, 1))) == 6
    rows = View.contiguous((2, 3, 8))
    assert row_pitch(rows) == row_pitch(rows.sliced(2, 1, 5)) == 8
    assert row_pitch(rows.permuted((0, 2, 1))) is None
    assert row_pitch(rows.sliced(1, 0, 2)) is None


def test_parts_of_two_concatenations_lie_in_one_of_them() -> None:
    x = operand(1, 4, 3, 3)
    parts = [convolution(x, outputs) for outputs in (2, 3, 4)]
    inner = Concatenation((1, 5, 3, 3), [*parts[:2]], 1)
    outer = Concatenation((1, 9, 3, 3), [*parts], 1)
    layouts = Layouts([x, *parts, inner, outer], [outer])
    assert layouts.parts == {parts[0]: Part(outer, 1, 0), parts[1]: Part(outer, 1, 2), parts[2]: Part(outer, 1, 5),
                             inner: Part(outer, 1, 0)}


def test_operands_results_and_parts_that_appear_twice_are_copied_into_a_concatenation() -> None:
    x = operand(1, 4, 3, 3)
    part, result = convolution(x, 2), convolution(x, 3)
    whole = Concatenation((1, 11, 3, 3), [x, part, part, result], 1)
    assert not Layouts([x, part, result, whole], [whole, result]).parts
