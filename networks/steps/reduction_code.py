"""ReductionCode: the entry that reduces some dimensions of its operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.formula import Formula, write
from seqtune.kernels.llvm.text.vectors import declare_math
from seqtune.kernels.llvm.text.writer import declarations

from . import masks
from .access import Access
from .fold import across, fold, sweep
from .nest_code import NestCode

_GROUP = 4  # vectors of columns that are reduced together, and rows at a time where there is one vector only


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The kind of a reduction; equal ones share their code.

    `kinds`: how each view is accessed along its vectors; `elements`: how its numbers are stored; `dimensions`: those
    of the nest of results; `reduced`: the number of reduced dimensions; `along`: vectors lie along the last reduced
    dimension, not along results.
    """

    kind: str
    before: Formula
    after: Formula
    kinds: tuple[str, ...]
    elements: tuple[Element, ...]
    dimensions: int
    reduced: int
    along: bool


def module_of(plans: Sequence[ReductionPlan], lanes: int) -> str:
    """One entry, or two: the first then reduces into the workspace, and the second what stands there."""
    parts, first = [declarations(lanes), declare_math(lanes), masks.declare_masked(
        lanes, [element for plan in plans for element in plan.elements])], 0
    for number, plan in enumerate(plans):
        code = _ReductionCode(plan, lanes, first, number + 1 < len(plans))
        parts.append(code.function(f"reduction{number}"))
        first += code.arguments
    return "\n".join(parts)


class _ReductionCode(NestCode):
    """Launch arguments: the addresses, those of the nest, sizes and steps of what is reduced, and its whole number."""

    def __init__(self, plan: ReductionPlan, lanes: int, first: int, partial: bool) -> None:
        operands, levels = range(plan.before.operands), range(plan.reduced)
        super().__init__(plan.kinds, plan.elements, plan.dimensions, lanes, [f"reduced{level}" for level in levels] + [
            f"step{operand}_{level}" for operand in operands for level in levels] + ["count"], first)
        self._plan, self._first, self._partial = plan, first, partial
        self._sizes = [self.of[f"reduced{level}"] for level in levels]
        self._steps = [[self.of[f"step{operand}_{level}"] for operand in operands] for level in levels]
        self._along = Access(self.v, plan.kinds, ["0", *self._steps[-1]], plan.elements)
        self._none = {"max": self.v.constant(float("-inf")), "min": self.v.constant(float("inf"))}.get(
            plan.kind, "zeroinitializer")

    @property
    def arguments(self) -> int:
        """The number of launch arguments of this entry."""
        return len(self.of)

    def base(self, view: int) -> str:
        """The address of a view's first element: in the workspace between two phases."""
        if (view == 0 and self._partial) or (view and self._first):
            return "%workspace"
        if self._first:
            return self.write.let(f"inttoptr i64 {self.write.argument('before0')} to ptr")
        return super().base(view)

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        with self.write.loop(0, rows) as row:
            starts = self.starts(pointers, row)
            if self._plan.along:
                self._row(starts)
            else:
                self._columns(starts, columns)

    def _join(self, left: str, right: str) -> str:
        joins: dict[str, Callable[[str, str], str]] = {"max": self.v.max, "min": self.v.min}
        return joins.get(self._plan.kind, self.v.add)(left, right)

    def _input(self, access: Access, pointers: Sequence[str], column: str, mask: str | None) -> str:
        """x; lanes outside the mask hold what changes no result."""
        starts = ["", *pointers]
        same = {view: self.write.splat(self.lanes, self.elements[view].load_one(self.write, start)) for view, start in
                enumerate(starts) if view and self._plan.kinds[view] == "same"}
        values = access.load_all(self.views[1:], starts, same, column, mask)
        x = write(self.write, self.lanes, self._plan.before, values)
        return self.v.select(mask, x, self._none) if mask else x

    def _finished(self, value: str) -> str:
        if self._plan.kind == "mean":
            count = self.write.let(f"uitofp i64 {self.of['count']} to float")
            value = self.v.div(value, self.write.splat(self.lanes, count))
        return write(self.write, self.lanes, self._plan.after, [value])

    def _moved(self, pointers: Sequence[str], level: int, index: str) -> list[str]:
        return [self.moved(view, pointer, self.write.mul(index, step))
                for view, (pointer, step) in enumerate(zip(pointers, self._steps[level], strict=True), 1)]

    def _nested(self, pointers: Sequence[str], sums: Sequence[str],
                innermost: Callable[[Sequence[str], Sequence[str]], list[str]], level: int = 0) -> list[str]:
        """Loops over all reduced dimensions but the last, which `innermost` visits."""
        if level + 1 == len(self._sizes):
            return innermost(pointers, sums)
        return fold(self.write, (0, self._sizes[level], 1), self.v.kind, sums, lambda index, inside: self._nested(
            self._moved(pointers, level, index), inside, innermost, level + 1))

    def _row(self, starts: Sequence[str]) -> None:
        def innermost(pointers: Sequence[str], sums: Sequence[str]) -> list[str]:
            return [self._join(sums[0], sweep(
                self.v, self._sizes[-1], self._none, _GROUP, lambda column, mask, value: self._join(
                    value, self._input(self._along, pointers, column, mask)), self._join))]

        value = across(self.v, self._nested(starts[1:], [self._none], innermost)[0], self._join)
        first = self.write.let(f"extractelement {self.v.kind} {self._finished(value)}, i32 0")
        self.elements[0].store_one(self.write, first, starts[0])

    def _columns(self, starts: Sequence[str], columns: str) -> None:
        write, lanes = self.write, self.lanes
        turn = _GROUP * lanes
        turns, vectors = write.i64("and", columns, -turn), write.i64("and", columns, -lanes)
        with write.loop(0, turns, turn) as column:
            self._group(starts, column, _GROUP, 1, None)
        with write.loop(turns, vectors, lanes) as column:
            self._group(starts, column, 1, _GROUP, None)
        rest = write.i64("sub", columns, vectors)
        with write.when(write.let(f"icmp ne i64 {rest}, 0")):
            self._group(starts, vectors, 1, _GROUP, masks.first_lanes(self.v, rest))

    def _group(self, starts: Sequence[str], column: str, vectors: int, rows: int, mask: str | None) -> None:
        """Reduce some vectors of columns, with `rows` independent sums of each."""
        write = self.write
        places = [write.add(column, vector * self.lanes) if vector else column for vector in range(vectors)]

        def add(pointers: Sequence[str], sums: Sequence[str]) -> list[str]:
            return [self._join(value, self._input(self.access, pointers, place, mask))
                    for value, place in zip(sums, places, strict=True)]

        def innermost(pointers: Sequence[str], sums: Sequence[str]) -> list[str]:
            whole = write.i64("and", self._sizes[-1], -rows)
            last = len(self._sizes) - 1
            sums = fold(write, (0, whole, rows), self.v.kind, sums, lambda index, inside: [
                value for row in range(rows) for value in add(
                    self._moved(pointers, last, write.add(index, row)), inside[row * vectors:(row + 1) * vectors])])
            rest = fold(write, (whole, self._sizes[-1], 1), self.v.kind, sums[:vectors], lambda index, inside: add(
                self._moved(pointers, last, index), inside))
            return [*rest, *sums[vectors:]]

        sums = self._nested(starts[1:], [self._none] * vectors * rows, innermost)
        while len(sums) > vectors:
            half = len(sums) // 2
            sums = [self._join(left, right) for left, right in zip(sums[:half], sums[half:], strict=True)]
        for value, place in zip(sums, places, strict=True):
            self.access.store(0, self._finished(value), starts[0], place, mask)
