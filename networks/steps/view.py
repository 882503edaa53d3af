"""View: a tensor inside a buffer, by its shape, strides, offset and element type. Changing a view costs nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from seqtune.errors import KernelError
from seqtune.kernels.llvm.text.elements import FP32, Element


@dataclass(frozen=True, slots=True)
class View:
    """Strides and offset are counted in elements. A stride of 0 repeats the same elements (a broadcast dimension).

    `element` is the type in which the numbers are stored.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    element: Element = FP32

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.strides) or min((*self.shape, *self.strides, self.offset, 0)) < 0:
            raise KernelError(f"a view of shape {self.shape} cannot have strides {self.strides} and offset "
                              f"{self.offset}; give one stride per dimension and no negative number")

    @classmethod
    def contiguous(cls, shape: Sequence[int], offset: int = 0, element: Element = FP32) -> View:
        """A tensor whose last dimension is the densest, without gaps."""
        strides, step = [], 1
        for size in reversed(shape):
            strides.append(step)
            step *= size
        return cls(tuple(shape), tuple(reversed(strides)), offset, element)

    @property
    def size(self) -> int:
        """The number of elements; a broadcast dimension counts all its repetitions."""
        return math.prod(self.shape)

    @property
    def extent(self) -> int:
        """The number of elements from the first to the last, both included."""
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)) \
            if self.size else 0

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other without gaps in the order of the dimensions."""
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return not self.size
            step *= size
        return True

    def permuted(self, order: Sequence[int]) -> View:
        """Dimension i of the result is dimension order[i] of this view. Raises KernelError."""
        if sorted(order) != list(range(len(self.shape))):
            raise KernelError(f"{tuple(order)} is not an order of {len(self.shape)} dimensions")
        return replace(self, shape=tuple(self.shape[i] for i in order), strides=tuple(self.strides[i] for i in order))

    def sliced(self, dimension: int, begin: int, end: int, step: int = 1) -> View:
        """Elements begin, begin + step, ... before `end` of one dimension. Raises KernelError outside the shape."""
        if not 0 <= begin <= end <= self.shape[dimension] or step < 1:
            raise KernelError(f"a slice {begin}:{end}:{step} does not fit a dimension of {self.shape[dimension]}")
        shape, strides = list(self.shape), list(self.strides)
        shape[dimension] = -(-(end - begin) // step)
        strides[dimension] *= step
        return replace(self, shape=tuple(shape), strides=tuple(strides),
                       offset=self.offset + begin * self.strides[dimension])

    def expanded(self, shape: Sequence[int]) -> View:
        """Broadcast by NumPy's rules: new leading dimensions, and sizes of 1 repeated. Raises KernelError."""
        added = len(shape) - len(self.shape)
        if added < 0 or any(own not in (1, size) for own, size in zip(self.shape, shape[added:], strict=True)):
            raise KernelError(f"a view of shape {self.shape} does not broadcast to {tuple(shape)}")
        strides = [0 if own != size else stride
                   for own, size, stride in zip(self.shape, shape[added:], self.strides, strict=True)]
        return replace(self, shape=tuple(shape), strides=(0,) * added + tuple(strides))

    def stored_as(self, element: Element) -> View:
        """The same view with another element type."""
        return replace(self, element=element)

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in the same order under another shape; None where that needs a copy. Raises KernelError."""
        if math.prod(shape) != self.size:
            raise KernelError(f"a view of {self.size} elements cannot have the shape {tuple(shape)}")
        if not self.size:
            return View.contiguous(shape, self.offset, self.element)
        merged = self._merged()
        strides: list[int] = []
        for size in reversed(shape):
            while merged and merged[-1][0] == 1:
                merged.pop()
            if size == 1:
                strides.append(0)
                continue
            available, stride = merged.pop()
            if available % size:
                return None
            strides.append(stride)
            merged.append((available // size, stride * size))
        return replace(self, shape=tuple(shape), strides=tuple(reversed(strides)))

    def _merged(self) -> list[tuple[int, int]]:
        """(size, stride) with neighbouring dimensions joined where the outer one continues the inner one."""
        merged: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if merged and merged[-1][1] == size * stride:
                merged[-1] = (merged[-1][0] * size, stride)
            else:
                merged.append((size, stride))
        return merged
