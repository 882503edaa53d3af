"""pointwise: a formula applied to every element of views, in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...implementation import KernelSource, Launch, Phase
from . import masks
from .access import Same
from .fold import visit
from .formula import Formula, write
from .nest import nest
from .nest_code import NestCode
from .step_source import StepSource
from .tile_transpose import transposed
from .view import View

_SHORT = 4  # lines of a formula that waits for memory: four vectors a turn, longer ones two


def pointwise(formula: Formula, out: View, operands: Sequence[View], lanes: int) -> StepSource:
    """Compute `out` = formula(operands). All views have one shape; `out` may be one of the operands.

    Raises KernelError where the shapes differ or elements of the output overlap.
    """
    assert len(operands) == formula.operands
    loops = nest([out, *operands], lanes)
    kinds = tuple(loops.access(view) for view in range(1 + len(operands)))
    source = _source(formula, kinds, len(loops.dimensions), loops.turned, lanes)
    launch = Launch((0,) * len(kinds) + loops.arguments(), (Phase("pointwise", loops.tasks),))
    return StepSource(source, launch, len(operands))


@lru_cache(maxsize=256)
def _source(formula: Formula, kinds: tuple[str, ...], dimensions: int, turned: bool, lanes: int) -> KernelSource:
    code = _Tiles if turned else _Rows
    return KernelSource(code(formula, kinds, dimensions, lanes).text("pointwise"))


class _Rows(NestCode):
    """Vectors along rows."""

    def __init__(self, formula: Formula, kinds: tuple[str, ...], dimensions: int, lanes: int) -> None:
        super().__init__(kinds, dimensions, lanes)
        self.formula, self.kinds = formula, kinds

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        copies = 4 if len(self.formula.lines) <= _SHORT else 2
        with self.write.loop(0, rows) as row:
            starts = self.starts(pointers, row)
            same = self.access.same(starts)
            visit(self.v, columns, copies, lambda column, mask: self.vector(starts, same, column, mask))

    def vector(self, starts: Sequence[str], same: Same, column: str, mask: str | None) -> None:
        """One vector of the output."""
        values = self.access.load_all(self.views[1:], starts, same, column, mask)
        self.access.store(0, write(self.write, self.lanes, self.formula, values), starts[0], column, mask)


class _Tiles(_Rows):
    """Tiles of lanes x lanes, in which some operands are transposed."""

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        write, lanes = self.write, self.lanes
        with write.loop(0, rows, lanes) as row, write.loop(0, columns, lanes) as column:
            height, width = write.i64("sub", rows, row), write.i64("sub", columns, column)
            full = write.let(f"icmp sge i64 {write.i64('smin', height, width)}, {lanes}")
            with write.when(full):
                self._tile(pointers, row, column, None)
            with write.when(write.let(f"xor i1 {full}, true")):
                self._tile(pointers, row, column, (height, width))

    def _tile(self, pointers: Sequence[str], row: str, column: str, edge: tuple[str, str] | None) -> None:
        """One tile; at an edge, only (height, width) elements of it are read and written."""
        write, v = self.write, self.v
        across = masks.first_lanes(v, edge[1]) if edge else None
        turned = {view: self._turned(view, pointer, row, column, edge)
                  for view, pointer in enumerate(pointers) if self.kinds[view] == "turned"}
        for line in range(self.lanes):
            place = write.add(row, self._limited(line, edge[0]) if edge else line)
            starts = self.starts(pointers, place)
            inside = masks.both(v, across, write.let(f"icmp sgt i64 {edge[0]}, {line}")) if edge and across else None
            self.vector(starts, self.access.same(starts) | {view: lines[line] for view, lines in turned.items()},
                        column, inside)

    def _turned(self, view: int, pointer: str, row: str, column: str, edge: tuple[str, str] | None) -> list[str]:
        write, v = self.write, self.v
        down = masks.first_lanes(v, edge[0]) if edge else None
        lines = []
        for line in range(self.lanes):
            place = write.add(column, self._limited(line, edge[1]) if edge else line)
            start = write.at(write.at(pointer, write.mul(place, self.inner[view])), row)
            lines.append(masks.load(v, start, down) if down else write.load(v.kind, start))
        return transposed(write, self.lanes, lines)

    def _limited(self, line: int, count: str) -> str:
        """The line, or the last one inside."""
        return self.write.i64("smin", str(line), self.write.i64("sub", count, 1))
