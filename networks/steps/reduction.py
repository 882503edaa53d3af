"""reduction: sums, means, largest and smallest numbers over any axes of views.

Where there are few results of many numbers, a first phase reduces slices into the workspace and a second one the
slices, so that several threads work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula, write
from seqtune.kernels.llvm.text.vectors import declare_math
from seqtune.kernels.llvm.text.writer import declarations

from . import masks
from .access import Access
from .fold import across, fold, sweep
from .nest import TASK, Dimension, Nest, collapsed, joined
from .nest_code import NestCode
from .step_source import StepSource
from .view import View

KINDS = ("sum", "mean", "max", "min")
_GROUP = 4  # vectors of columns that are reduced together, and rows at a time where there is one vector only
_FEW_TASKS = 8  # fewer tasks than this leave threads idle
_SLICES = 16


@dataclass(frozen=True, slots=True)
class _Plan:
    """The kind of a reduction; equal ones share their code.

    `kinds`: how each view is accessed along its vectors; `elements`: how its numbers are stored; `dimensions`: those
    of the nest of results; `reduced`: the number of reduced dimensions; `along`: vectors lie along the last reduced
    dimension, not along results.
    """

    kind: str
    before: Formula
    kinds: tuple[str, ...]
    elements: tuple[Element, ...]
    dimensions: int
    reduced: int
    along: bool


Planned = tuple[_Plan, Nest, tuple[int, ...]]


def reduction(kind: str, out: View, operands: Sequence[View], axes: Sequence[int], lanes: int,
              before: Formula = IDENTITY) -> StepSource:
    """Reduce x = before(operands) over axes.

    `out` has the operands' number of dimensions, and size 1 along the axes. A NaN makes its result NaN, as in PyTorch.
    Raises KernelError for an unknown kind, or where the shapes do not fit.
    """
    shape = operands[0].shape
    expected = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    if kind not in KINDS or out.shape != expected or any(view.shape != shape for view in operands):
        raise KernelError(f"a reduction {kind!r:.20} of {shape} over the axes {tuple(axes)} has one of the kinds "
                          f"{', '.join(KINDS)} and a result of the shape {expected}, not {out.shape}")
    assert len(operands) == before.operands
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    dimensions = collapsed([_only(view, kept) for view in (out, *operands)])
    reduced = joined(sorted(((shape[axis], tuple(view.strides[axis] for view in operands))
                             for axis in axes if shape[axis] != 1), key=lambda dimension: -dimension[1][0]))
    reduced = reduced or [(1, (1,) * len(operands))]
    count = math.prod(size for size, _ in reduced)
    elements = tuple(view.element for view in (out, *operands))
    whole = _planned(kind, dimensions, reduced, lanes, before, elements)
    slices = _slices(whole, reduced[0][0], count * math.prod(size for size, _ in dimensions))
    if slices == 1:
        return _step([(whole, count)], len(operands), lanes, 0)
    partial = [(slices, (math.prod(size for size, _ in dimensions), *(
        stride * reduced[0][0] // slices for stride in reduced[0][1]))), *_dense(dimensions)]
    parts = [(reduced[0][0] // slices, reduced[0][1]), *reduced[1:]]
    first = _planned("sum" if kind == "mean" else kind, partial, parts, lanes, before,
                     (FP32, *elements[1:]))
    size = partial[0][1][0]
    last = _planned(kind, [(dense[0], (strides[0], dense[1][0])) for dense, (_, strides) in zip(
        _dense(dimensions), dimensions, strict=True)], [(slices, (size,))], lanes, IDENTITY,
                    (elements[0], FP32))
    return _step([(first, count), (last, count)], len(operands), lanes, slices * size)


def _only(view: View, axes: Sequence[int]) -> View:
    return View(tuple(view.shape[axis] for axis in axes), tuple(view.strides[axis] for axis in axes))


def _dense(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The same dimensions with the output in the workspace: without gaps."""
    step, result = 1, []
    for size, strides in reversed(dimensions):
        result.append((size, (step, *strides[1:])))
        step *= size
    return result[::-1]


def _slices(whole: Planned, size: int, floats: int) -> int:
    """The number of slices of the outermost reduced dimension, a divisor of its size; 1 where slices do not help."""
    if whole[1].tasks >= _FEW_TASKS or floats < 4 * TASK:
        return 1
    return max(number for number in range(1, _SLICES + 1) if size % number == 0)


def _planned(kind: str, dimensions: Sequence[Dimension], reduced: Sequence[Dimension], lanes: int, before: Formula,
             elements: tuple[Element, ...]) -> Planned:
    """The plan of a phase, the nest of its results, and sizes and strides of what is reduced."""
    views = 1 + before.operands
    empty = (1, (0,) * views)
    along = reduced[-1][1][0] == 1 and not any(strides[1] == 1 for _, strides in dimensions)
    dimensions = list(dimensions)
    count = max(1, math.prod(size for size, _ in reduced))
    if along:
        dimensions = [empty, *dimensions, empty]
        rows, inner = max(1, TASK // count), 1
    else:
        # Vectors along the dimension in which the first operand is dense, else along the last.
        dense = [dimension for dimension in dimensions if dimension[1][1] == 1][-1:] or dimensions[-1:]
        dimensions = [empty, *(dimension for dimension in dimensions if dimension not in dense), *(dense or [empty])]
        inner = min(-(-max(4 * lanes, TASK // count) // lanes) * lanes, max(1, dimensions[-1][0]))
        rows = max(1, TASK // (count * inner))
    loops = Nest(tuple(dimensions), "rows", min(rows, max(1, dimensions[-2][0])), inner)
    strides = [1, *reduced[-1][1]] if along else dimensions[-1][1]
    kinds = tuple({0: "same", 1: "dense"}.get(stride, "apart") for stride in strides)
    plan = _Plan(kind, before, kinds, elements, len(dimensions), len(reduced), along)
    numbers = (*(size for size, _ in reduced), *(
        strides[operand] for operand in range(before.operands) for _, strides in reduced))
    return plan, loops, numbers


def _step(phases: Sequence[tuple[Planned, int]], operands: int, lanes: int, workspace: int) -> StepSource:
    arguments: tuple[int, ...] = ()
    for (plan, loops, sizes), count in phases:
        arguments += (0,) * (1 + plan.before.operands) + loops.arguments() + sizes + (count,)
    source = _source(tuple(plan for (plan, _, _), _ in phases), lanes)
    return StepSource(source, Launch(arguments, tuple(Phase(f"reduction{number}", loops.tasks) for number, (
        (_, loops, _), _) in enumerate(phases)), workspace), operands)


@lru_cache(maxsize=256)
def _source(plans: tuple[_Plan, ...], lanes: int) -> KernelSource:
    """The module of one entry, or of two: the first one reduces into the workspace, the second one reduces that."""
    parts, first = [declarations(lanes), declare_math(lanes), masks.declare_masked(
        lanes, [element for plan in plans for element in plan.elements])], 0
    for number, plan in enumerate(plans):
        code = _ReductionCode(plan, lanes, first, number + 1 < len(plans))
        parts.append(code.function(f"reduction{number}"))
        first += len(code.of)  # its launch arguments
    return KernelSource("\n".join(parts))


class _ReductionCode(NestCode):
    """Launch arguments: the addresses, those of the nest, sizes and steps of what is reduced, and its whole number."""

    def __init__(self, plan: _Plan, lanes: int, first: int, partial: bool) -> None:
        operands, levels = range(plan.before.operands), range(plan.reduced)
        super().__init__(plan.kinds, plan.elements, plan.dimensions, lanes, [f"reduced{level}" for level in levels] + [
            f"step{operand}_{level}" for operand in operands for level in levels] + ["count"], first)
        self._plan, self._first, self._partial = plan, first, partial
        self._sizes = [self.of[f"reduced{level}"] for level in levels]
        self._steps = [[self.of[f"step{operand}_{level}"] for operand in operands] for level in levels]
        self._along = Access(self.v, plan.kinds, ["0", *self._steps[-1]], plan.elements)
        self._neutral = {"max": self.v.constant(float("-inf")), "min": self.v.constant(float("inf"))}.get(
            plan.kind, "zeroinitializer")

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
        return self.v.select(mask, x, self._neutral) if mask else x

    def _finished(self, value: str) -> str:
        if self._plan.kind == "mean":
            count = self.write.let(f"uitofp i64 {self.of['count']} to float")
            value = self.v.div(value, self.write.splat(self.lanes, count))
        return value

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
                self.v, self._sizes[-1], self._neutral, _GROUP, lambda column, mask, value: self._join(
                    value, self._input(self._along, pointers, column, mask)), self._join))]

        value = across(self.v, self._nested(starts[1:], [self._neutral], innermost)[0], self._join)
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
        columns = [write.add(column, vector * self.lanes) if vector else column for vector in range(vectors)]

        def add(pointers: Sequence[str], sums: Sequence[str]) -> list[str]:
            return [self._join(value, self._input(self.access, pointers, at, mask))
                    for value, at in zip(sums, columns, strict=True)]

        def innermost(pointers: Sequence[str], sums: Sequence[str]) -> list[str]:
            whole = write.i64("and", self._sizes[-1], -rows)
            last = len(self._sizes) - 1
            sums = fold(write, (0, whole, rows), self.v.kind, sums, lambda index, inside: [
                value for row in range(rows) for value in add(
                    self._moved(pointers, last, write.add(index, row)), inside[row * vectors:(row + 1) * vectors])])
            rest = fold(write, (whole, self._sizes[-1], 1), self.v.kind, sums[:vectors], lambda index, inside: add(
                self._moved(pointers, last, index), inside))
            return [*rest, *sums[vectors:]]

        sums = self._nested(starts[1:], [self._neutral] * vectors * rows, innermost)
        while len(sums) > vectors:
            half = len(sums) // 2
            sums = [self._join(left, right) for left, right in zip(sums[:half], sums[half:], strict=True)]
        for value, at in zip(sums, columns, strict=True):
            self.access.store(0, self._finished(value), starts[0], at, mask)
