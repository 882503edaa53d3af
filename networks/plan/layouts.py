"""Layouts: where in its buffer each value of a network lies, as far as its operation leaves a choice.

Images are NHWC, because the kernels write whole vectors of channels; attention writes token by token, so that the next
product reads rows. The parts of a concatenation are written where the whole will be, if their operations can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..nodes import (
    AttentionHeads,
    Concatenation,
    Constant,
    Gather,
    Input,
    Layer,
    MovedRows,
    Node,
    Padding,
    Pool,
    Product,
    Rearranged,
    RowOperation,
    Shape,
)
from ..steps.view import View


@dataclass(frozen=True, slots=True)
class Part:
    """A value that is stored inside another one, `whole`: from index `begin` on along an axis."""

    whole: Node
    axis: int
    begin: int


def channels_last(shape: Shape) -> View:
    """An image in NHWC."""
    _, c, h, w = shape
    return View(shape, (h * w * c, 1, w * c, c))


def image_pitch(view: View) -> int | None:
    """The floats from one pixel to the next of an image in NHWC, perhaps a slice of its channels; None for others."""
    n, c, h, w = view.shape
    pixel = next((stride // steps for size, stride, steps in (  # strides of axes of size 1 are arbitrary
        (w, view.strides[3], 1), (h, view.strides[2], w), (n, view.strides[0], h * w)) if size > 1), c)
    expected = (h * w * pixel, 1, w * pixel, pixel)
    fits = all(size == 1 or own == other
               for size, own, other in zip(view.shape, view.strides, expected, strict=True))
    return pixel if fits and pixel >= c else None


def row_pitch(view: View) -> int | None:
    """The floats from one row, the last axis, to the next, all leading axes being one; None where they differ."""
    size = view.shape[-1]
    rows = view.reshaped((view.size // size, size))
    if rows is None or (size > 1 and rows.strides[1] != 1):
        return None
    pitch = rows.strides[0] if rows.shape[0] > 1 else size
    return pitch if pitch >= size else None


class Layouts:
    """The layout of every value of a network, and the parts that are written in place."""

    def __init__(self, nodes: Sequence[Node], results: Sequence[Node]) -> None:
        self._images = _images(nodes)
        self._permuted = _permuted_products(nodes)
        self.parts: dict[Node, Part] = {}
        for node in reversed(nodes):
            if isinstance(node, Concatenation):
                self._store_parts(node, set(results))

    def own(self, node: Node) -> View:
        """The dense layout of a value in a buffer of its own."""
        if node in self._images:
            return channels_last(node.shape).stored_as(node.element)
        if node in self._permuted:
            return self._permuted[node]
        if isinstance(node, AttentionHeads):
            batch, heads, length, size = node.shape
            return View.contiguous((batch, length, heads, size), 0, node.element).permuted((0, 2, 1, 3))
        return View.contiguous(node.shape, 0, node.element)

    def _store_parts(self, whole: Concatenation, results: set[Node]) -> None:
        begins = [0]
        for part in whole.inputs:
            begins.append(begins[-1] + part.shape[whole.axis])
        stored = [self.parts.get(part) for part in whole.inputs]
        first = stored[0]
        if first is not None and whole not in self.parts and whole not in results \
                and first.whole.element == whole.element and all(
                part is not None and (part.whole, part.axis) == (first.whole, whole.axis)
                and part.begin == first.begin + begin
                for part, begin in zip(stored, begins, strict=False)):
            self.parts[whole] = Part(first.whole, whole.axis, first.begin)  # all parts lie there side by side
            return
        layout = self.own(whole)
        for part, begin in zip(whole.inputs, begins, strict=False):
            view = layout.sliced(whole.axis, begin, begin + part.shape[whole.axis])
            if part not in self.parts and part not in results and whole.inputs.count(part) == 1 \
                    and part.element == whole.element and can_write(part, view):
                self.parts[part] = Part(whole, whole.axis, begin)


def can_write(node: Node, view: View) -> bool:
    """Whether the operation of a node can write its result in this layout."""
    if isinstance(node, Input | Constant | Rearranged | Padding):
        return False
    if isinstance(node, Pool) or (isinstance(node, Layer) and node.work.type == "conv2d"):
        return image_pitch(view) is not None
    if isinstance(node, Layer | Gather | MovedRows):
        return row_pitch(view) is not None
    if isinstance(node, RowOperation | AttentionHeads | Product):
        return view.strides[-1] == 1
    return True


def _permuted_products(nodes: Sequence[Node]) -> dict[Node, View]:
    """The layouts of products whose axes are permuted, such as heads: contiguous in the permuted order."""
    layouts: dict[Node, View] = {}
    for node in nodes:
        if isinstance(node, Rearranged) and isinstance(node.inputs[0], Product) and not node.reshapes \
                and node.inverse is not None:
            view = node.inverse(View.contiguous(node.shape))
            if view is not None and view.strides[-1] == 1:
                layouts[node.inputs[0]] = view
    return layouts


def _is_image_of_tokens(node: Rearranged) -> bool:
    """Whether a permuted value lies in NHWC: its channels, the second axis, are contiguous in every pixel."""
    view = node.transform(View.contiguous(node.inputs[0].shape))
    return view is not None and node.shape[1] > 1 and view.strides[1] == 1 and image_pitch(view) is not None \
        and not view.is_contiguous


def _images(nodes: Sequence[Node]) -> set[Node]:
    """The values of four axes that lie in NHWC: results of convolutions and pooling, and what is computed of them."""
    images: set[Node] = set()
    read = {node.inputs[0] for node in nodes if isinstance(node, Layer) and node.work.type == "conv2d"}
    for node in nodes:
        if len(node.shape) != 4 or isinstance(node, Input | Constant | AttentionHeads | Product | RowOperation):
            continue
        if isinstance(node, Pool) or (isinstance(node, Layer) and node.work.type == "conv2d") \
                or (isinstance(node, Padding) and node in read):
            images.add(node)
        elif isinstance(node, Rearranged):
            source = node.inputs[0]
            if isinstance(source, Rearranged) and len(source.shape) != 4:  # a shuffle of the channels of an image
                while isinstance(source, Rearranged):
                    source = source.inputs[0]
            if (source in images and source.shape[2:] == node.shape[2:]) or _is_image_of_tokens(node):
                images.add(node)
        elif not isinstance(node, Layer | Gather | MovedRows) and any(read in images for read in node.inputs):
            images.add(node)
    return images
