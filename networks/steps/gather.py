"""gather: rows of a table by whole numbers, as in an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula
from seqtune.kernels.llvm.text.formula import write as apply

from .access import Access
from .fold import visit
from .nest import row_nest
from .nest_code import NestCode
from .step_source import StepSource
from .view import View


def gather(out: View, table: View, indices: View, others: Sequence[View], lanes: int,
           after: Formula = IDENTITY) -> StepSource:
    """Compute out[..., :] = after(table[indices[...], :], *others).

    `table` is (rows, columns), `indices` holds int64 and has strides and an offset in floats of 4 bytes, `out` and
    `others` are (*indices.shape, columns).

    The operands are the table, the indices, the others and a flag, an int64. An index outside the table reads nothing,
    makes its row NaN before `after`, and sets the flag to 1; the program clears the flag and reports it. Raises
    KernelError where the shapes do not fit or the table is empty.
    """
    assert len(others) == after.operands - 1
    columns = table.shape[-1]
    fits = len(table.shape) == 2 and out.shape == (*indices.shape, columns)
    if not fits or not table.shape[0]:
        raise KernelError(f"rows of a table of shape {table.shape} chosen by {indices.shape} indices do not have the "
                          f"shape {out.shape}")
    spread = View((*indices.shape, columns), (*indices.strides, 0))
    loops = row_nest([out, spread, *others])
    kinds = ["index" if view == 1 else loops.access(view) for view in range(2 + len(others))]
    table_kind = {1: "dense", 0: "same"}.get(table.strides[1] if columns > 1 else 1, "apart")
    elements = (out.element, FP32, *(view.element for view in others), table.element)
    source = _source(after, (*kinds, table_kind), elements, len(loops.dimensions), lanes)
    arguments = (0,) * (4 + len(others)) + loops.arguments() + (table.shape[0], *table.strides)
    return StepSource(source, Launch(arguments, (Phase("gather", loops.tasks),)), 3 + len(others))


@lru_cache(maxsize=64)
def _source(after: Formula, kinds: tuple[str, ...], elements: tuple[Element, ...], dimensions: int,
            lanes: int) -> KernelSource:
    return KernelSource(_GatherCode(after, kinds, elements, dimensions, lanes).text("gather"))


class _GatherCode(NestCode):
    """The views of the nest are the output, the indices and the others; the last kind and element are the table's."""

    def __init__(self, after: Formula, kinds: Sequence[str], elements: Sequence[Element], dimensions: int,
                 lanes: int) -> None:
        super().__init__(kinds[:-1], elements[:-1], dimensions, lanes, ["table_rows", "table_row", "table_column"], 2)
        self._stored, self._after = elements[-1], after
        self._table = Access(self.v, kinds[-1:], [self.of["table_column"]], [self._stored])

    def _address(self, number: int) -> str:
        """The address in one of the first launch arguments."""
        argument = self.write.let(f"getelementptr i64, ptr %a, i64 {number}")
        return self.write.let(f"inttoptr i64 {self.write.let(f'load i64, ptr {argument}, align 8')} to ptr")

    def base(self, view: int) -> str:
        """The launch arguments begin with output, table, indices, others and flag."""
        if view == 0:
            self._table_start, self._flag = self._address(1), self._address(len(self.views) + 1)
        return self._address(view + 1 if view else 0)

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        write, v, of = self.write, self.v, self.of
        with write.loop(0, rows) as row:
            starts = self.starts(pointers, row)
            index = write.let(f"load i64, ptr {starts[1]}, align 4")
            inside = write.let(f"icmp ult i64 {index}, {of['table_rows']}")
            with write.when(write.let(f"xor i1 {inside}, true")):
                write.do(f"store i64 1, ptr {self._flag}, align 8")
            index = write.let(f"select i1 {inside}, i64 {index}, i64 0")
            source = self._stored.at(write, self._table_start, write.mul(index, of["table_row"]))
            same, table_same = self.access.same(starts), self._table.same([source])

            def body(column: str, mask: str | None) -> None:
                value = self._table.load_all([0], [source], table_same, column, mask)[0]
                value = write.let(f"select i1 {inside}, {v.kind} {value}, {v.kind} {v.constant(float('nan'))}")
                others = self.access.load_all(self.views[2:], starts, same, column, mask)
                result = apply(write, self.lanes, self._after, [value, *others])
                self.access.store(0, result, starts[0], column, mask)

            visit(v, columns, 4, body)
