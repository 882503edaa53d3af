"""pointwise: a formula applied to every element of views, in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ...implementation import KernelSource, Launch, Phase
from ..ir.writer import ENTRY, Writer, declarations
from . import masks
from .formula import Formula, write
from .nest import nest
from .step_source import StepSource
from .tile_transpose import transposed
from .vectors import Vectors, declare_math
from .view import View

_SHORT = 4  # lines of a formula that waits for memory: four vectors a turn, longer ones two


def pointwise(formula: Formula, out: View, operands: Sequence[View], lanes: int) -> StepSource:
    """Compute `out` = formula(operands). All views have one shape; `out` may be one of the operands.

    Raises KernelError where the shapes differ or elements of the output overlap.
    """
    assert len(operands) == formula.operands
    loops = nest([out, *operands], lanes)
    access = tuple(loops.access(view) for view in range(1 + len(operands)))
    source = _source(formula, access, len(loops.dimensions), loops.turned, lanes)
    launch = Launch((0,) * len(access) + loops.arguments(), (Phase("pointwise", loops.tasks),))
    return StepSource(source, launch, len(operands))


@lru_cache(maxsize=256)
def _source(formula: Formula, access: tuple[str, ...], dimensions: int, turned: bool, lanes: int) -> KernelSource:
    return KernelSource("\n".join([declarations(lanes), declare_math(lanes), masks.declare_masked(lanes),
                                   _Code(formula, access, dimensions, turned, lanes).function()]))


class _Code:
    """The code of one formula, number of dimensions and kinds of access."""

    def __init__(self, formula: Formula, access: tuple[str, ...], dimensions: int, turned: bool, lanes: int) -> None:
        self.formula, self.access, self.turned, self.lanes = formula, access, turned, lanes
        views, outer = range(len(access)), range(dimensions - 2)
        self.fields = [f"address{view}" for view in views] + [f"size{level}" for level in outer] + [
            "rows", "row_block", "inner", "inner_block"] + [
            f"stride{view}_{level}" for view in views for level in range(dimensions)]
        self.outer, self.last = outer, dimensions - 1
        self.write = Writer(self.fields)
        self.v = Vectors(self.write, lanes)

    def function(self) -> str:
        """The entry: a loop over tasks."""
        write = self.write
        self.of = {name: write.argument(name) for name in self.fields}
        bases = [write.let(f"inttoptr i64 {self.of[f'address{view}']} to ptr") for view in range(len(self.access))]
        inner_blocks = self._ceiling("inner", "inner_block")
        row_blocks = self._ceiling("rows", "row_block")
        with write.loop("%begin", "%end") as task:
            rest, places = task, {}
            for level, count in [(self.last, inner_blocks), (self.last - 1, row_blocks), *(
                    (level, self.of[f"size{level}"]) for level in reversed(self.outer))]:
                places[level] = write.i64("urem", rest, count) if level else rest
                rest = write.i64("udiv", rest, count) if level else rest
            column = write.mul(places[self.last], self.of["inner_block"])
            row = write.mul(places[self.last - 1], self.of["row_block"])
            places |= {self.last: column, self.last - 1: row}
            pointers = []
            for view, base in enumerate(bases):
                for level, place in places.items():
                    base = write.at(base, write.mul(place, self.of[f"stride{view}_{level}"]))
                pointers.append(base)
            rows = write.i64("smin", self.of["row_block"], write.i64("sub", self.of["rows"], row))
            columns = write.i64("smin", self.of["inner_block"], write.i64("sub", self.of["inner"], column))
            (self._tiles if self.turned else self._rows)(pointers, rows, columns)
        return write.function(f"void @pointwise({ENTRY})")

    def _ceiling(self, size: str, block: str) -> str:
        more = self.write.add(self.of[size], self.write.i64("sub", self.of[block], 1))
        return self.write.i64("udiv", more, self.of[block])

    def _stride(self, view: int) -> str:
        return self.of[f"stride{view}_{self.last}"]

    def _along(self, view: int) -> str:
        return self.of[f"stride{view}_{self.last - 1}"]

    def _rows(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        write, lanes = self.write, self.lanes
        turn = lanes * (4 if len(self.formula.lines) <= _SHORT else 2)
        turns = write.i64("and", columns, -turn)
        vectors = write.i64("and", columns, -lanes)
        with write.loop(0, rows) as row:
            starts = [write.at(pointer, write.mul(row, self._along(view))) for view, pointer in enumerate(pointers)]
            same = self._same(starts)
            with write.loop(0, turns, turn) as column:
                for offset in range(0, turn, lanes):
                    self._vector(starts, same, write.add(column, offset) if offset else column, None)
            with write.loop(turns, vectors, lanes) as column:
                self._vector(starts, same, column, None)
            rest = write.i64("sub", columns, vectors)
            with write.when(write.let(f"icmp ne i64 {rest}, 0")):
                self._vector(starts, same, vectors, masks.first_lanes(self.v, rest))

    def _same(self, starts: Sequence[str]) -> dict[int, str]:
        """Views that hold one float along a row, as vectors."""
        return {view: self.write.splat(self.lanes, self.write.load("float", start))
                for view, start in enumerate(starts) if self.access[view] == "same"}

    def _vector(self, starts: Sequence[str], same: dict[int, str], column: str, mask: str | None) -> None:
        values = []
        for view, start in enumerate(starts[1:], 1):
            values.append(same[view] if view in same else self._load(view, start, column, mask))
        self._store(write(self.write, self.lanes, self.formula, values), starts[0], column, mask)

    def _load(self, view: int, start: str, column: str, mask: str | None) -> str:
        if self.access[view] == "dense":
            pointer = self.write.at(start, column)
            return masks.load(self.v, pointer, mask) if mask else self.write.load(self.v.kind, pointer)
        pointer = self.write.at(start, self.write.mul(column, self._stride(view)))
        return masks.gather(self.v, pointer, self._stride(view), mask) if mask else masks.load_apart(
            self.v, pointer, self._stride(view))

    def _store(self, value: str, start: str, column: str, mask: str | None) -> None:
        if self.access[0] == "dense":
            pointer = self.write.at(start, column)
            if mask:
                masks.store(self.v, value, pointer, mask)
            else:
                self.write.store(self.v.kind, value, pointer)
            return
        pointer = self.write.at(start, self.write.mul(column, self._stride(0)))
        if mask:
            masks.scatter(self.v, value, pointer, self._stride(0), mask)
        else:
            masks.store_apart(self.v, value, pointer, self._stride(0))

    def _tiles(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        write, lanes = self.write, self.lanes
        with write.loop(0, rows, lanes) as row, write.loop(0, columns, lanes) as column:
            height, width = write.i64("sub", rows, row), write.i64("sub", columns, column)
            full = write.let(f"icmp sge i64 {write.i64('smin', height, width)}, {lanes}")
            with write.when(full):
                self._tile(pointers, row, column, None)
            with write.when(write.let(f"xor i1 {full}, true")):
                self._tile(pointers, row, column, (height, width))

    def _tile(self, pointers: Sequence[str], row: str, column: str, edge: tuple[str, str] | None) -> None:
        """A tile of lanes x lanes; at an edge, (height, width) elements of it, and the last ones are repeated."""
        write, v = self.write, self.v
        down = masks.first_lanes(v, edge[0]) if edge else None
        across = masks.first_lanes(v, edge[1]) if edge else None
        turned: dict[int, list[str]] = {}
        for view, pointer in enumerate(pointers):
            if self.access[view] == "turned":
                lines = []
                for line in range(self.lanes):
                    place = write.add(column, self._limited(line, edge[1]) if edge else line)
                    start = write.at(write.at(pointer, write.mul(place, self._stride(view))), row)
                    lines.append(masks.load(v, start, down) if down else write.load(v.kind, start))
                turned[view] = transposed(write, self.lanes, lines)
        for line in range(self.lanes):
            place = write.add(row, self._limited(line, edge[0]) if edge else line)
            starts = [write.at(pointer, write.mul(place, self._along(view))) for view, pointer in enumerate(pointers)]
            inside = masks.both(v, across, write.let(f"icmp sgt i64 {edge[0]}, {line}")) if edge and across else None
            self._vector(starts, self._same(starts) | {view: lines[line] for view, lines in turned.items()}, column,
                         inside)

    def _limited(self, line: int, count: str) -> str:
        return self.write.i64("smin", str(line), self.write.i64("sub", count, 1))
