"""Translations of operations that make images of another size: interpolation, padding by reflection, pixel shuffles.

Interpolation is linear and separable. Its weights along an axis are found by interpolating unit vectors, so they are
PyTorch's own for every mode and every way to give the size. Where each new pixel is one old pixel, the pixels are read
by number in one step; else an axis takes a step for each tap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx

from ..nodes import MovedRows, Node, Shape
from ..steps.rows import SCALE, SCALE_SHIFT
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axis_of, shape_of

aten = torch.ops.aten
MOST_TAPS = 8  # maximum number of old pixels that one new pixel needs along an axis; each takes a step

Taps = tuple[NDArray[np.int64], NDArray[np.float32]]  # (size, taps): old pixels of each new one, and their weights


def _interpolated(lowering: Lowering, node: fx.Node) -> Node:
    x, shape = lowering.value(node.args[0]), shape_of(node)
    if len(x.shape) < 3:
        raise UnknownOperationError("an interpolation without channels")
    scales = arguments(node).get("scale_factors") or [1.0] * (len(shape) - 2)
    changed = [axis for axis in range(2, len(shape)) if shape[axis] != x.shape[axis] or scales[axis - 2] != 1]
    others = [max(2, math.ceil(2.0 / scale)) for scale in scales]  # two pixels remain: of one, PyTorch's `_aa` is wrong
    return resampled(lowering, x, {axis: _taps(node, x.shape[axis], shape[axis], axis, others) for axis in changed})


def padded_with_itself(lowering: Lowering, node: fx.Node) -> Node:
    """Padding with numbers of the image itself."""
    x, given = lowering.value(node.args[0]), arguments(node)["pad" if node.target is aten.pad.default else "padding"]
    shape = shape_of(node)
    if any(width < 0 for width in given) or len(shape) - len(given) // 2 < 2:
        raise UnknownOperationError("padding that crops, or of channels")
    axes = {}
    for pair in range(len(given) // 2):
        axis = len(shape) - 1 - pair
        if any(given[2 * pair:2 * pair + 2]):
            moved = torch.arange(x.shape[axis], dtype=torch.float32)[None, None]
            mode = arguments(node).get("mode") or ("reflect" if "reflection" in str(node.target) else "replicate")
            numbers = torch.nn.functional.pad(moved, given[2 * pair:2 * pair + 2], mode)[0, 0]
            axes[axis] = (numbers.long().numpy()[:, None], np.ones((shape[axis], 1), np.float32))
    return resampled(lowering, x, axes)


def adaptive_average(lowering: Lowering, node: fx.Node) -> Node:
    """Means of windows of different sizes."""
    x, shape = lowering.value(node.args[0]), shape_of(node)
    others = [1] * (len(shape) - 2)
    return resampled(lowering, x, {axis: _taps(node, x.shape[axis], shape[axis], axis, others)
                                   for axis in range(2, len(shape)) if shape[axis] != x.shape[axis]})


def _taps(node: fx.Node, size: int, new: int, axis: int, others: Sequence[int]) -> Taps:
    """The old pixels of each new one along an axis, by computing the operation for unit vectors.

    `others` are small sizes for the other axes, along which the numbers are the same.
    """
    axes = range(2, 2 + len(others))
    sizes = [size if other == axis else others[other - 2] for other in axes]
    units = torch.eye(size).reshape(1, size, *[size if other == axis else 1 for other in axes])
    wanted = None if node.args[1] is None else [new if other == axis else others[other - 2] for other in axes]
    target: Any = node.target
    results: Tensor = target(units.expand(1, size, *sizes), wanted, *node.args[2:], **node.kwargs)
    weights = results.movedim(axis, -1).reshape(size, -1, new)[:, 0].t().numpy()
    count = int((weights != 0).sum(1).max())
    if count > MOST_TAPS:
        raise UnknownOperationError(f"{count} pixels become one")
    order = np.sort(np.argsort(weights == 0, axis=1, kind="stable")[:, :count], axis=1)
    return order.astype(np.int64), np.take_along_axis(weights, order, 1).astype(np.float32)


def resampled(lowering: Lowering, x: Node, axes: dict[int, Taps]) -> Node:
    """Weighted sums of pixels along axes, computed with channels as neighbours."""
    count = len(x.shape)
    last, first = (0, *range(2, count), 1), (0, count - 1, *range(1, count - 1))
    value = lowering.add_permuted(x, last)
    if axes and all(_is_choice(taps) for taps in axes.values()):
        value = chosen_rows(lowering, value, {axis - 1: taps[0][:, 0] for axis, taps in axes.items()})
    else:
        for axis in sorted(axes, key=lambda axis: (len(axes[axis][0]) / x.shape[axis], -axis)):
            value = _mixed(lowering, value, axis - 1, axes[axis])
    return lowering.add_permuted(value, first)


def _is_choice(taps: Taps) -> bool:
    """Whether every new pixel is one old pixel."""
    return taps[0].shape[1] == 1 and bool((taps[1] == 1).all())


def chosen_rows(lowering: Lowering, x: Node, axes: dict[int, NDArray[np.int64]]) -> Node:
    """One step that reads rows, the last axis: those of these indices along the other axes."""
    numbers = np.arange(math.prod(x.shape[:-1])).reshape(x.shape[:-1])
    for axis, chosen in axes.items():
        numbers = np.take(numbers, chosen, axis)
    return lowering.add(MovedRows((*numbers.shape, x.shape[-1]), [x], np.ascontiguousarray(numbers)))


def _mixed(lowering: Lowering, x: Node, axis: int, taps: Taps) -> Node:
    """A step for each tap along one axis; all that lies inside of it is one row."""
    chosen, weights = taps
    outer, inner = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1:])
    size, new = x.shape[axis], len(chosen)
    rows = lowering.add_reshaped(x, (outer, size, inner))
    begins = size * np.arange(outer)[:, None]
    result: Node | None = None
    for tap in range(chosen.shape[1]):
        factors = lowering.value(torch.from_numpy(np.ascontiguousarray(weights[:, tap:tap + 1])))
        more = [] if result is None else [result]
        result = lowering.add(MovedRows((outer, new, inner), [rows, factors, *more], begins + chosen[:, tap],
                                        SCALE_SHIFT if more else SCALE))
    assert result is not None
    return lowering.add_reshaped(result, (*x.shape[:axis], new, *x.shape[axis + 1:]))


def _shuffle(name: str, split: Callable[[int, Shape], Shape], order: Shape) -> Maker:
    """A shuffle of channels and pixels: the input as the shape `split(number, result's shape)`, its axes in `order`."""
    def make(lowering: Lowering, node: fx.Node) -> Node:
        x, number, shape = lowering.value(node.args[0]), int(node.args[1]), shape_of(node)  # type: ignore[arg-type]
        if len(shape) != 4:
            raise UnknownOperationError(f"a {name} shuffle of another number of axes than four")
        n, c, h, w = shape
        permuted = lowering.add_permuted(lowering.add_reshaped(x, split(number, shape)), order)
        return lowering.add_permuted(lowering.add_reshaped(permuted, (n, h, w, c)), (0, 3, 1, 2))

    return make


def _flipped(lowering: Lowering, node: fx.Node) -> Node:
    """Images and sequences in the other direction."""
    x, shape = lowering.value(node.args[0]), shape_of(node)
    axes = {axis_of(axis, len(shape)) for axis in arguments(node)["dims"]}
    if len(shape) < 3 or not axes <= set(range(2, len(shape))):
        raise UnknownOperationError("a flip of channels")
    return resampled(lowering, x, {axis: (np.arange(shape[axis])[::-1, None].copy(),
                                          np.ones((shape[axis], 1), np.float32)) for axis in axes})


_INTERPOLATIONS = tuple(getattr(aten, name).vec for name in (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d",
    "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"))
RESAMPLING: dict[Any, Maker] = {
    **dict.fromkeys(_INTERPOLATIONS, _interpolated),
    **dict.fromkeys((aten.reflection_pad1d.default, aten.reflection_pad2d.default, aten.replication_pad1d.default,
                     aten.replication_pad2d.default), padded_with_itself),
    aten.pixel_shuffle.default: _shuffle("pixel", lambda factor, shape: (
        *shape[:2], factor, factor, shape[2] // factor, shape[3] // factor), (0, 4, 2, 5, 3, 1)),
    aten.pixel_unshuffle.default: _shuffle("pixel", lambda factor, shape: (
        shape[0], shape[1] // factor ** 2, shape[2], factor, shape[3], factor), (0, 2, 4, 1, 3, 5)),
    aten.channel_shuffle.default: _shuffle("channel", lambda groups, shape: (
        shape[0], groups, shape[1] // groups, *shape[2:]), (0, 3, 4, 2, 1)),
    aten.flip.default: _flipped,
}
