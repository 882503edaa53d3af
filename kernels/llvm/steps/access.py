"""Access: loads and stores of a view's vectors along one row, in the way that its strides allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import masks
from .vectors import Vectors

Same = Mapping[int, str]  # vectors of the views that hold one float along a row


class Access:
    """`kinds` says for each view "dense", "same", "apart" or "turned" (see `Nest.access`), `strides` its stride."""

    def __init__(self, v: Vectors, kinds: Sequence[str], strides: Sequence[str]) -> None:
        self._v, self._kinds, self._strides = v, kinds, strides

    def same(self, starts: Sequence[str]) -> dict[int, str]:
        """Views that hold one float along a row, as vectors."""
        return {view: self._v.write.splat(self._v.lanes, self._v.write.load("float", start))
                for view, start in enumerate(starts) if self._kinds[view] == "same"}

    def load(self, view: int, start: str, column: str, mask: str | None) -> str:
        """A vector of a row that begins at `start`. Lanes outside the mask hold 0."""
        v = self._v
        if self._kinds[view] == "dense":
            pointer = v.write.at(start, column)
            return masks.load(v, pointer, mask) if mask else v.write.load(v.kind, pointer)
        stride = self._strides[view]
        pointer = v.write.at(start, v.write.mul(column, stride))
        return masks.gather(v, pointer, stride, mask) if mask else masks.load_apart(v, pointer, stride)

    def load_all(self, views: Sequence[int], starts: Sequence[str], same: Same, column: str,
                 mask: str | None) -> list[str]:
        """Vectors of several views at one column."""
        return [same[view] if view in same else self.load(view, starts[view], column, mask) for view in views]

    def store(self, view: int, value: str, start: str, column: str, mask: str | None) -> None:
        """Write a vector of a row, or its lanes of the mask."""
        v = self._v
        dense, stride = self._kinds[view] == "dense", self._strides[view]
        pointer = v.write.at(start, column if dense else v.write.mul(column, stride))
        if dense and mask:
            masks.store(v, value, pointer, mask)
        elif dense:
            v.write.store(v.kind, value, pointer)
        elif mask:
            masks.scatter(v, value, pointer, stride, mask)
        else:
            masks.store_apart(v, value, pointer, stride)
