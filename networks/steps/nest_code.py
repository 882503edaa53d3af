"""NestCode: the entry of a step whose tasks are blocks of a nest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.vectors import Vectors, declare_math
from seqtune.kernels.llvm.text.writer import ENTRY, Writer, declarations

from .access import Access
from .masks import declare_masked


class NestCode(ABC):
    """Loops over the blocks of a nest; a subclass writes what a block computes. The arguments are Nest.arguments().

    `kinds`: how each view is accessed; `elements`: how its numbers are stored; `dimensions`: their number in the nest.
    `more` names arguments that follow; `first` is the number of arguments that belong to an earlier entry.
    """

    def __init__(self, kinds: Sequence[str], elements: Sequence[Element], dimensions: int, lanes: int,
                 more: Sequence[str] = (), first: int = 0) -> None:
        views, self._outer = range(len(kinds)), range(dimensions - 2)
        self._fields = [f"address{view}" for view in views] + [f"size{level}" for level in self._outer] + [
            "rows", "row_block", "inner", "inner_block"] + [
            f"stride{view}_{level}" for view in views for level in range(dimensions)] + list(more)
        self._last, self.views, self.elements, self.lanes = dimensions - 1, views, elements, lanes
        self.write = Writer([*(f"before{number}" for number in range(first)), *self._fields])
        self.v = Vectors(self.write, lanes)
        self.of = {name: self.write.argument(name) for name in self._fields}
        self.inner = [self.of[f"stride{view}_{self._last}"] for view in views]
        self.along = [self.of[f"stride{view}_{self._last - 1}"] for view in views]
        self.access = Access(self.v, kinds, self.inner, elements)

    @abstractmethod
    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        """Write the code of a task: the views' first elements in the block, and its numbers of rows and columns."""

    def text(self, entry: str) -> str:
        """The module: declarations and the entry."""
        return "\n".join([declarations(self.lanes), declare_math(self.lanes), declare_masked(self.lanes, self.elements),
                          self.function(entry)])

    def function(self, entry: str) -> str:
        """The entry, a loop over tasks."""
        write, of = self.write, self.of
        bases = [self.base(view) for view in self.views]
        counts = {self._last: self._ceiling("inner", "inner_block"), self._last - 1: self._ceiling("rows", "row_block")}
        counts |= {level: of[f"size{level}"] for level in reversed(self._outer)}
        with write.loop("%begin", "%end") as task:
            rest, indices = task, {}
            for level, count in counts.items():
                indices[level] = write.i64("urem", rest, count) if level else rest
                rest = write.i64("udiv", rest, count) if level else rest
            column = indices[self._last] = write.mul(indices[self._last], of["inner_block"])
            row = indices[self._last - 1] = write.mul(indices[self._last - 1], of["row_block"])
            pointers = []
            for view, base in enumerate(bases):
                for level, index in indices.items():
                    base = self.moved(view, base, write.mul(index, of[f"stride{view}_{level}"]))
                pointers.append(base)
            rows = write.i64("smin", of["row_block"], write.i64("sub", of["rows"], row))
            columns = write.i64("smin", of["inner_block"], write.i64("sub", of["inner"], column))
            self.block(pointers, rows, columns)
        return write.function(f"void @{entry}({ENTRY})")

    def base(self, view: int) -> str:
        """The address of a view's first element."""
        return self.write.let(f"inttoptr i64 {self.of[f'address{view}']} to ptr")

    def starts(self, pointers: Sequence[str], row: str) -> list[str]:
        """The views' first elements in a row of the block."""
        return [self.moved(view, pointer, self.write.mul(row, self.along[view]))
                for view, pointer in enumerate(pointers)]

    def moved(self, view: int, pointer: str, elements: str) -> str:
        """A pointer into a view's memory moved by some of its elements."""
        return self.elements[view].at(self.write, pointer, elements)

    def _ceiling(self, size: str, block: str) -> str:
        more = self.write.add(self.of[size], self.write.i64("sub", self.of[block], 1))
        return self.write.i64("udiv", more, self.of[block])
