"""Row steps: softmax, layer normalisation and RMS normalisation along the last dimension of views.

The first operand is x; scale and shift of each column follow where there are any. The output may be an operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from seqtune.errors import KernelError
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text import vector_math
from seqtune.kernels.llvm.text.elements import Element
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula, write

from .fold import across, sweep, visit
from .nest import row_nest
from .nest_code import NestCode
from .step_source import StepSource
from .view import View

SCALE = Formula.of("mul", 0, 1)  # x times a factor
SCALE_SHIFT = Formula(3, (("mul", 0, 1), ("add", 3, 2)))  # x times a factor, plus a summand


@dataclass(frozen=True, slots=True)
class _Rows:
    """The kind of a step over rows; equal ones share their code."""

    kind: str
    after: Formula
    epsilon: float


def row_step(kind: str, out: View, operands: Sequence[View], lanes: int, epsilon: float = 0.0) -> StepSource:
    """Compute every row by its `kind`; a second operand scales the result, a third one is added. Raises KernelError.

    softmax: e^(x - max) / sum; log_softmax: its logarithm; layer_norm: (x - mean) / sqrt(variance + epsilon), the
    variance is the biased one; rms_norm: x / sqrt(mean of x^2 + epsilon).
    """
    rows = _Rows(kind, (IDENTITY, SCALE, SCALE_SHIFT)[len(operands) - 1], epsilon)
    views = [out, *operands]
    loops = row_nest(views)
    if out.shape[-1] > 1 and out.strides[-1] != 1:
        raise KernelError(f"{kind} writes rows without gaps, not with strides of {out.strides[-1]}")
    kinds = tuple(loops.access(view) for view in range(len(views)))
    source = _source(rows, kinds, tuple(view.element for view in views), len(loops.dimensions), lanes)
    return StepSource(source, Launch((0,) * len(views) + loops.arguments(), (Phase(kind, loops.tasks),)), len(operands))


@lru_cache(maxsize=256)
def _source(rows: _Rows, kinds: tuple[str, ...], elements: tuple[Element, ...], dimensions: int,
            lanes: int) -> KernelSource:
    return KernelSource(_RowCode(rows, kinds, elements, dimensions, lanes).text(rows.kind))


class _RowCode(NestCode):
    def __init__(self, rows: _Rows, kinds: tuple[str, ...], elements: tuple[Element, ...], dimensions: int,
                 lanes: int) -> None:
        super().__init__(kinds, elements, dimensions, lanes)
        self._rows = rows

    def block(self, pointers: Sequence[str], rows: str, columns: str) -> None:
        with self.write.loop(0, rows) as row:
            self._starts = self.starts(pointers, row)
            self._same = self.access.same(self._starts)
            self._columns = columns
            {"softmax": self._softmax, "log_softmax": self._log_softmax, "layer_norm": self._layer_norm,
             "rms_norm": self._rms_norm}[self._rows.kind]()

    def _input(self, column: str, mask: str | None, outside: str = "zeroinitializer") -> str:
        """x; lanes outside the mask hold `outside`."""
        (x,) = self.access.load_all(self.views[1:2], self._starts, self._same, column, mask)
        return self.v.select(mask, x, outside) if mask else x

    def _finish(self, value: str, column: str, mask: str | None) -> None:
        others = self.access.load_all(self.views[2:], self._starts, self._same, column, mask)
        self.access.store(0, write(self.write, self.lanes, self._rows.after, [value, *others]), self._starts[0],
                          column, mask)

    def _sum(self, copies: int, add: Callable[[str, str], str], outside: str = "zeroinitializer") -> str:
        """Accumulate x over the row; `add` maps (x, sum) to the next sum, and leaves it as it is for `outside`."""
        v = self.v
        return across(v, sweep(v, self._columns, "zeroinitializer", copies, lambda column, mask, sums: add(
            self._input(column, mask, outside), sums), v.add), v.add)

    def _max(self) -> str:
        """The row's largest number. NaNs are left out: they spread when exp(x - max) is summed."""
        v, lowest = self.v, self.v.constant(float("-inf"))

        def larger(left: str, right: str) -> str:
            return v.select(v.compare("ogt", left, right), left, right)

        return across(v, sweep(v, self._columns, lowest, 4, lambda column, mask, most: larger(
            self._input(column, mask, lowest), most), larger), larger)

    def _exponentials(self, most: str, store: bool) -> str:
        """The sum of exp(x - max); `store`: they are written to the output."""
        v = self.v

        def step(column: str, mask: str | None, sums: str) -> str:
            value = vector_math.exp_of_negative(v, v.sub(self._input(column, mask), most))
            if store:
                self.access.store(0, value, self._starts[0], column, mask)
            return v.add(sums, v.select(mask, value, "zeroinitializer") if mask else value)

        return across(v, sweep(v, self._columns, "zeroinitializer", 2, step, v.add), v.add)

    def _softmax(self) -> None:
        v = self.v
        share = v.div(v.constant(1.0), self._exponentials(self._max(), True))
        visit(v, self._columns, 2, lambda column, mask: self._finish(
            v.mul(self.access.load(0, self._starts[0], column, mask), share), column, mask))

    def _log_softmax(self) -> None:
        v, most = self.v, self._max()
        logarithm = vector_math.log(v, self._exponentials(most, False))
        visit(v, self._columns, 2, lambda column, mask: self._finish(
            v.sub(v.sub(self._input(column, mask), most), logarithm), column, mask))

    def _layer_norm(self) -> None:
        v = self.v
        mean = v.div(self._sum(4, lambda x, sums: v.add(sums, x)), self._count())

        def squares(x: str, sums: str) -> str:
            distance = v.sub(x, mean)
            return v.fma(distance, distance, sums)

        self._scaled(self._sum(4, squares, mean), lambda x: v.sub(x, mean))

    def _rms_norm(self) -> None:
        self._scaled(self._sum(4, lambda x, sums: self.v.fma(x, x, sums)), lambda x: x)

    def _scaled(self, squares: str, centred: Callable[[str], str]) -> None:
        """Divide by the square root of the mean square plus epsilon."""
        v = self.v
        mean = v.add(v.div(squares, self._count()), v.constant(self._rows.epsilon))
        factor = v.div(v.constant(1.0), v.unary("sqrt", mean))

        visit(v, self._columns, 2, lambda column, mask: self._finish(
            v.mul(centred(self._input(column, mask)), factor), column, mask))

    def _count(self) -> str:
        """The number of columns as a vector."""
        return self.write.splat(self.lanes, self.write.let(f"uitofp i64 {self._columns} to float"))
