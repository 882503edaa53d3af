"""pointwise: a formula applied to every element of views, in vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.formula import Formula, write
from seqtune.kernels.llvm.text.writer import Writer

from . import masks
from .access import Same
from .fold import visit
from .nest import nest
from .nest_code import NestCode
from .step_source import StepSource
from .view import View

_SHORT = 4  # lines of a formula that waits for memory: four vectors a turn, longer ones two


def pointwise(formula: Formula, out: View, operands: Sequence[View], lanes: int) -> StepSource:
    """Compute `out` = formula(operands) in fp32. All views have one shape; `out` may be one of the operands.

    Raises KernelError where the shapes differ or elements of the output overlap.
    """
    assert len(operands) == formula.operands
    loops = nest([out, *operands], lanes)
    kinds = tuple(loops.access(view) for view in range(1 + len(operands)))
    source = _source(formula, kinds, tuple(view.element for view in (out, *operands)), len(loops.dimensions),
                     loops.order, loops.inner if loops.order == "woven" else 0, lanes)
    launch = Launch((0,) * len(kinds) + loops.arguments(), (Phase("pointwise", loops.tasks),))
    return StepSource(source, launch, len(operands))


@lru_cache(maxsize=256)
def _source(formula: Formula, kinds: tuple[str, ...], elements: tuple[Element, ...], dimensions: int, order: str,
            width: int, lanes: int) -> KernelSource:
    code = {"rows": _Rows, "tiles": _Tiles, "woven": _Woven}[order](formula, kinds, elements, dimensions, width, lanes)
    return KernelSource(code.text("pointwise"))


class _Rows(NestCode):
    """Vectors along rows."""

    def __init__(self, formula: Formula, kinds: tuple[str, ...], elements: tuple[Element, ...], dimensions: int,
                 width: int, lanes: int) -> None:
        super().__init__(kinds, elements, dimensions, lanes)
        self.formula, self.kinds, self.width = formula, kinds, width

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
    """Tiles of lanes x lanes, in which some operands are transposed; at the edges, rows of vectors."""

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        write, lanes = self.write, self.lanes
        with write.loop(0, rows, lanes) as row, write.loop(0, columns, lanes) as column:
            height, width = write.i64("sub", rows, row), write.i64("sub", columns, column)
            full = write.let(f"icmp sge i64 {write.i64('smin', height, width)}, {lanes}")
            with write.when(full):
                self._tile(pointers, row, column)
            with write.when(write.let(f"xor i1 {full}, true")):
                inside = masks.first_lanes(self.v, width)
                with write.loop(row, write.add(row, write.i64("smin", height, lanes))) as line:
                    starts = self.starts(pointers, line)
                    self.vector(starts, self.access.same(starts), column, inside)

    def _tile(self, pointers: Sequence[str], row: str, column: str) -> None:
        turned = {view: self._turned(view, pointer, row, column)
                  for view, pointer in enumerate(pointers) if self.kinds[view] == "turned"}
        for line in range(self.lanes):
            starts = self.starts(pointers, self.write.add(row, line))
            self.vector(starts, self.access.same(starts) | {view: lines[line] for view, lines in turned.items()},
                        column, None)

    def _turned(self, view: int, pointer: str, row: str, column: str) -> list[str]:
        write = self.write
        lines = []
        for line in range(self.lanes):
            start = self.moved(view, pointer, write.mul(write.add(column, line), self.inner[view]))
            lines.append(self.access.load_dense(view, self.moved(view, start, row), None))
        return _transposed(write, self.lanes, lines)


class _Woven(_Rows):
    """Operands whose `width` rows alternate in the output, element by element."""

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        same = self.access.same(pointers)
        visit(self.v, rows, 1, lambda row, mask: self._weave(pointers, same, row, mask, rows))

    def _weave(self, pointers: Sequence[str], same: Same, row: str, mask: str | None, rows: str) -> None:
        write, v = self.write, self.v
        lines = {}
        for view, pointer in enumerate(pointers):
            if self.kinds[view] == "turned":
                starts = [self.moved(view, self.moved(view, pointer, write.mul(self.inner[view], line)), row)
                          for line in range(self.width)]
                lines[view] = _woven(write, self.lanes, [
                    self.access.load_dense(view, start, mask) for start in starts])
        first, rest = write.mul(row, self.width), write.mul(write.i64("sub", rows, row), self.width)
        for line in range(self.width):
            inside = masks.first_lanes(v, write.i64("sub", rest, line * self.lanes)) if mask else None
            self.vector(pointers, {**same, **{view: values[line] for view, values in lines.items()}},
                        write.add(first, line * self.lanes), inside)


def _transposed(writer: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """The columns of some vectors of `lanes` floats, one after the other; both numbers are powers of two.

    Interleaving the halves of the list log2(vectors) times gives the columns.
    """
    vectors = list(rows)
    order = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
    half = len(vectors) // 2
    for _ in range(half.bit_length()):
        vectors = [writer.shuffle(lanes, low, high, chosen)
                   for low, high in zip(vectors[:half], vectors[half:], strict=True)
                   for chosen in (order[:lanes], order[lanes:])]
    return vectors


def _woven(writer: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """The columns of two, three or four vectors of `lanes` floats, one after the other."""
    if len(rows) != 3:
        return _transposed(writer, lanes, rows)
    first, second, third = rows
    result = []
    for line in range(3):
        sources = [divmod(line * lanes + lane, 3) for lane in range(lanes)]  # (column, row) of each lane
        pairs = writer.shuffle(lanes, first, second, [column + lanes * (row == 1) for column, row in sources])
        result.append(writer.shuffle(lanes, pairs, third, [
            lanes + column if row == 2 else lane for lane, (column, row) in enumerate(sources)]))
    return result
