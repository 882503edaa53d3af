"""Nest: the loops over the elements of several views of one shape, and their split into tasks.

Dimensions are joined where all views allow it. The last one is computed in vectors, inside a loop over the one before;
a task is a block of these two at one index of each other dimension.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.errors import KernelError

from .view import View

TASK = 4096  # floats of a task: 16 KB, half a first-level cache, and about a microsecond
_TURNED = 5  # cost of a vector of a transposed tile beside an ordinary load: log2(lanes) shuffles and the load

Dimension = tuple[int, tuple[int, ...]]  # size, and the stride of every view


@dataclass(frozen=True, slots=True)
class Nest:
    """`dimensions`, outermost first, at least two.

    `order` says how the last two are visited: "rows" of vectors, "tiles" of lanes x lanes, or "woven": both together in
    vectors, for operands of two, three or four rows whose elements alternate in the output.
    """

    dimensions: tuple[Dimension, ...]
    order: str
    rows: int  # size of a task along the last but one dimension
    inner: int  # size of a task along the last dimension

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        (*outer, (rows, _), (inner, _)) = self.dimensions
        return math.prod(size for size, _ in outer) * -(-rows // self.rows) * -(-inner // self.inner)

    def access(self, view: int) -> str:
        """How a vector of the view is reached: "dense", "same" (one float), "apart", or "turned" by shuffles."""
        stride, along = self.dimensions[-1][1][view], self.dimensions[-2][1][view]
        if stride in (0, 1):
            return ("same", "dense")[stride]
        return "turned" if self.order != "rows" and view and along == 1 else "apart"

    def arguments(self) -> tuple[int, ...]:
        """Launch arguments: sizes of the outer dimensions, four sizes of the others, then the strides by view."""
        (*outer, (rows, _), (inner, _)) = self.dimensions
        views = range(len(self.dimensions[0][1]))
        return (*(size for size, _ in outer), rows, self.rows, inner, self.inner,
                *(strides[view] for view in views for _, strides in self.dimensions))


def nest(views: Sequence[View], lanes: int) -> Nest:
    """The loops over views of one shape; the first is the output. Raises KernelError where shapes differ."""
    dimensions = collapsed(views)
    size = math.prod(size for size, _ in dimensions)
    while len(dimensions) < 2:
        dimensions = [(1, (0,) * len(views)), *dimensions]
    if size and _is_woven(dimensions):
        return Nest(tuple(dimensions), "woven", _even(dimensions[-2][0], TASK // 4, lanes), dimensions[-1][0])
    inner, row = min(
        ((inner, row) for inner in range(len(dimensions)) for row in (None, *range(len(dimensions))) if row != inner),
        key=lambda pair: _cost(dimensions, pair[0], pair[1], lanes))
    order, unit = ("rows", 1) if row is None else ("tiles", lanes)
    if row is None:
        row = max(index for index in range(len(dimensions)) if index != inner)
    outer = [dimension for index, dimension in enumerate(dimensions) if index not in (inner, row)]
    rows, columns = dimensions[row][0], dimensions[inner][0]
    inner_block = _even(columns, max(TASK // unit, lanes), lanes)
    row_block = _even(rows, max(TASK // max(inner_block, 1), unit), unit)
    return Nest((*outer, dimensions[row], dimensions[inner]), order, row_block, inner_block) if size else Nest(
        ((0, (0,) * len(views)), *((1, (0,) * len(views)),) * 2), "rows", 1, 1)


def row_nest(views: Sequence[View]) -> Nest:
    """The loops over views of one shape whose rows, the last dimension, are not split. Raises KernelError."""
    if any(not view.shape or view.shape != views[0].shape for view in views):
        raise KernelError(f"views of a step over rows have the shapes {', '.join(str(view.shape) for view in views)}; "
                          "expand them to one shape")
    columns = views[0].shape[-1]
    dimensions = collapsed([View(view.shape[:-1], view.strides[:-1]) for view in views]) or [(1, (0,) * len(views))]
    last = (columns, tuple(view.strides[-1] if columns > 1 else 1 for view in views))
    rows = dimensions[-1][0] if columns else 0
    return Nest((*dimensions[:-1], (rows, dimensions[-1][1]), last), "rows", _even(
        rows, max(1, TASK // max(columns, 1)), 1), max(columns, 1))


def collapsed(views: Sequence[View]) -> list[Dimension]:
    """Dimensions ordered by the first view's strides, largest first, and joined where all views allow it.

    Raises KernelError where shapes differ, or where the first view, the output, repeats a float.
    """
    out = views[0]
    if any(view.shape != out.shape for view in views):
        raise KernelError(f"views of a step have different shapes: {', '.join(str(view.shape) for view in views)}; "
                          "expand them")
    dimensions = [(size, strides) for size, *strides in zip(
        out.shape, *(view.strides for view in views), strict=True) if size != 1]
    dimensions.sort(key=lambda dimension: -dimension[1][0])
    reach = 0  # floats from the first element to the last one of the dimensions inside
    for size, strides in reversed(dimensions):
        if strides[0] <= reach and out.size:
            raise KernelError(f"elements of the output of shape {out.shape} and strides {out.strides} overlap")
        reach += (size - 1) * strides[0]
    return joined([(size, tuple(strides)) for size, strides in dimensions])


def joined(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The dimensions with neighbours joined where the outer one continues the inner one in all views."""
    result: list[Dimension] = []
    for size, inside in dimensions:
        if result and all(outside == size * stride for outside, stride in zip(result[-1][1], inside, strict=True)):
            result[-1] = (result[-1][0] * size, inside)
        else:
            result.append((size, inside))
    return result


def _is_woven(dimensions: Sequence[Dimension]) -> bool:
    """Whether some operands are interleaved, two to four wide, and all else is without gaps in the last dimensions."""
    (_, rows), (width, inner) = dimensions[-2:]
    pairs = list(zip(inner, rows, strict=True))
    turned = [view > 0 and along == 1 and stride > 1 for view, (stride, along) in enumerate(pairs)]
    return width in (2, 3, 4) and any(turned) and all(
        shuffled or pair in ((1, width), (0, 0)) for shuffled, pair in zip(turned, pairs, strict=True))


def _cost(dimensions: Sequence[Dimension], inner: int, row: int | None, lanes: int) -> tuple[float, int]:
    """Loads and stores in vectors where dimension `inner` is the last, in tiles with `row`; ties go to the densest."""
    count = 1.0
    for index, (size, _) in enumerate(dimensions):
        count *= -(-size // lanes) * (lanes if index == row else 1) if index in (inner, row) else size
    costs = 0
    for view, stride in enumerate(dimensions[inner][1]):
        if stride in (0, 1):
            costs += 1
        elif row is not None and view and dimensions[row][1][view] == 1:
            costs += _TURNED
        else:
            costs += lanes
    return count * costs, (row is not None) * 100 - inner


def _even(size: int, most: int, unit: int) -> int:
    """The block, a multiple of `unit`, that splits `size` evenly into blocks of about at most `most`."""
    blocks = max(1, -(-size // most))
    return max(unit, -(-size // (blocks * unit)) * unit)
