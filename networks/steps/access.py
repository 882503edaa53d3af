"""Access: loads and stores of a view's vectors along one row, in the way that its strides allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.vectors import Vectors

from . import masks

Same = Mapping[int, str]  # vectors of the views that hold one number along a row


class Access:
    """`kinds` says for each view "dense", "same", "apart" or "turned" (see `Nest.access`), `strides` its stride.

    `elements` are the types in which the views' numbers are stored; vectors in registers are fp32.
    """

    def __init__(self, v: Vectors, kinds: Sequence[str], strides: Sequence[str], elements: Sequence[Element]) -> None:
        self._v, self._kinds, self._strides, self._elements = v, kinds, strides, elements

    def same(self, starts: Sequence[str]) -> dict[int, str]:
        """Views that hold one number along a row, as vectors."""
        return {view: self._v.write.splat(self._v.lanes, self._elements[view].load_one(self._v.write, start))
                for view, start in enumerate(starts) if self._kinds[view] == "same"}

    def load(self, view: int, start: str, column: str, mask: str | None) -> str:
        """A vector of a row that begins at `start`. Lanes outside the mask hold 0."""
        v, element = self._v, self._elements[view]
        if self._kinds[view] == "dense":
            return self.load_dense(view, element.at(v.write, start, column), mask)
        stride = self._strides[view]
        pointer = element.at(v.write, start, v.write.mul(column, stride))
        if mask:
            return masks.gather(v, element, pointer, stride, mask)
        return masks.load_apart(v, element, pointer, stride)

    def load_dense(self, view: int, pointer: str, mask: str | None) -> str:
        """A vector of neighbours. Lanes outside the mask hold 0."""
        write, lanes, element = self._v.write, self._v.lanes, self._elements[view]
        return element.load_masked(write, lanes, pointer, mask) if mask else element.load(write, lanes, pointer)

    def load_all(self, views: Sequence[int], starts: Sequence[str], same: Same, column: str,
                 mask: str | None) -> list[str]:
        """Vectors of several views at one column."""
        return [same[view] if view in same else self.load(view, starts[view], column, mask) for view in views]

    def store(self, view: int, value: str, start: str, column: str, mask: str | None) -> None:
        """Write a vector of a row, or its lanes of the mask."""
        v, element = self._v, self._elements[view]
        dense, stride = self._kinds[view] == "dense", self._strides[view]
        pointer = element.at(v.write, start, column if dense else v.write.mul(column, stride))
        if dense and mask:
            element.store_masked(v.write, v.lanes, value, pointer, mask)
        elif dense:
            element.store(v.write, v.lanes, value, pointer)
        elif mask:
            masks.scatter(v, element, value, pointer, stride, mask)
        else:
            masks.store_apart(v, element, value, pointer, stride)
