"""Rows: matrix products, attention and functions of the rows of arrays, compiled for this CPU on the first call.

A prediction computes with these instead of NumPy's BLAS, so that it is a pure function: BLAS rounds differently where
an array lies at another address, has more rows, or runs on another CPU. Here each row of a result is computed alone, in
an order of operations that does not depend on the CPU's vectors (see `row_text`), and on the calling thread.
Arrays hold float32. Shapes: R rows, K inputs, N outputs, P positions, W width.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.aligned import aligned
from seqtune.tuner.backends.llvm.compiled import Functions, address, compiled

from .layer_text import ADD, GELU, PANEL, SCORED, SIGNATURES, UNIT, text
from .row_text import LANES

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
AT_ONCE = 128  # rows or hypotheses that go through a layer together: what lies between its products stays in the caches


@cache
def _functions() -> Functions:
    return compiled(text, SIGNATURES)


class Matrix:
    """A matrix (K, N) to multiply with, and an offset (N,) of the products, at addresses that are read fast."""

    def __init__(self, weight: Floats, bias: Floats | None = None) -> None:
        self.depth, self.columns = weight.shape
        panels = -(-self.columns // PANEL)
        padded = np.zeros((self.depth + 1, panels * PANEL), np.float32)  # the last row is the bias
        padded[:-1, :self.columns] = weight
        padded[-1, :self.columns] = 0 if bias is None else bias
        self._weight, self._bias = aligned((panels, self.depth, PANEL)), aligned((panels * PANEL,))
        self._weight[...] = padded[:-1].reshape(self.depth, panels, PANEL).transpose(1, 0, 2)
        self._bias[...] = padded[-1]
        self.addresses = address(self._weight), address(self._bias)

    def multiply(self, x: Floats, unit: bool = False, gelu: bool = False) -> Floats:
        """x @ weight + bias for x (R, K): (R, N).

        With `unit`, the rows of x are scaled to length 1 as `unit` does; with `gelu`, the result is gelu of it.
        """
        result = np.empty((len(x), self.columns), np.float32)
        self._call(x, result, UNIT * unit + GELU * gelu)
        return result

    def add_to(self, sums: Floats, x: Floats) -> None:
        """Add x @ weight + bias, for x (R, K), to the contiguous array `sums` (R, N)."""
        assert sums.flags.c_contiguous
        assert sums.shape == (len(x), self.columns)
        self._call(x, sums, ADD)

    def _call(self, x: Floats, y: Floats, flags: int) -> None:
        assert x.shape[1] == self.depth
        if not self.depth:
            y[...] = self._bias[:self.columns] + (y if flags & ADD else 0)
            return
        x = _with_rows(x)
        weight, bias = self.addresses
        _functions()["multiply"](address(x), x.strides[0] // 4, len(x), self.depth, weight, bias, address(y),
                                 self.columns, flags)


class MatrixTable:
    """The table of matrices that a function of `layer_text` reads."""

    def __init__(self, *matrices: Matrix) -> None:
        self._matrices = matrices  # the addresses are valid as long as they live
        self._numbers = np.array([(*matrix.addresses, matrix.depth, matrix.columns) for matrix in matrices], np.int64)
        self.address: int = address(self._numbers)


def attend(query: Floats, pairs: Floats, starts: Numbers, counts: Numbers, heads: int) -> Floats:
    """Let each query (R, W), which is scaled, attend to `counts` > 0 positions from the one in `starts` on: (R, W).

    `pairs` (P, 2 W) holds keys and values of all heads; `starts` and `counts` are (R,).
    """
    query, pairs = _with_rows(query), _with_rows(pairs)
    count, width = query.shape
    assert pairs.shape[1] == 2 * width
    result, scratch = np.empty((count, width), np.float32), np.empty(len(pairs) + LANES, np.float32)
    starts, counts = (np.ascontiguousarray(numbers, np.int64) for numbers in (starts, counts))
    _functions()["attend"](address(query), query.strides[0] // 4, address(pairs), pairs.strides[0] // 4,
                           address(starts), address(counts), count, heads, width // heads, address(scratch),
                           address(result))
    return result


def encode(x: Floats, table: MatrixTable, starts: Numbers, counts: Numbers, heads: int, widest: int) -> None:
    """Apply a layer of the encoder to rows x (R, W) in place; row i attends to `counts[i]` rows from `starts[i]` on.

    `widest` is the number of outputs of its widest matrix.
    """
    assert x.flags.c_contiguous
    count, width = x.shape
    scratch = np.empty(count * (2 * widest + width) + LANES, np.float32)
    _functions()["encode"](address(x), count, heads, table.address, address(starts), address(counts),
                           address(scratch))


class Attended(NamedTuple):
    """What the rows of several queries may attend to."""

    pairs: Floats  # (P, ...) keys and values of all queries, one after the other
    starts: Numbers  # (Q,) first position of a query
    counts: Numbers  # (Q,) positions


def decode(x: Floats, table: MatrixTable, before: Floats, parents: Numbers, source: Attended, owners: Numbers,
           heads: int, finished: int, widest: int) -> tuple[Floats, Floats]:
    """Apply a layer of the decoder to words x (H, T, W) after earlier ones: the last words (H, finished, W), and pairs.

    `before` (., D, 2 W) has the keys and values of earlier words, and `parents` (H,) the index of each hypothesis in
    it; the result has them of all words (H, D + T, 2 W). `owners` (H,) are queries of the source.
    """
    assert x.flags.c_contiguous
    assert before.flags.c_contiguous
    assert finished in (1, x.shape[1])
    (count, length, width), done = x.shape, before.shape[1]
    past, y = np.empty((count, done + length, 2 * width), np.float32), np.empty((count, finished, width), np.float32)
    pairs = _with_rows(source.pairs)
    size = min(count, AT_ONCE)
    scratch = np.empty(size * (length * 2 * widest + finished * (width + 4)) + done + length + len(pairs) + LANES,
                       np.float32)
    for begin in range(0, count, AT_ONCE):
        _functions()["decode"](
            address(x) + begin * x.strides[0], min(size, count - begin), length, finished, done, heads, table.address,
            address(before), address(parents) + 8 * begin, address(past) + begin * past.strides[0], address(pairs),
            pairs.strides[0] // 4, address(source.starts), address(source.counts), address(owners) + 8 * begin,
            address(scratch), address(y) + begin * y.strides[0])
    return y, past


class QueryWords(NamedTuple):
    """Words of queries: their vectors, and the indices of the vectors of those that are read or scored."""

    vectors: Floats  # (Q, V, W) contiguous: of all target words of each query
    owners: Numbers  # (H,) query of each hypothesis
    words: Numbers  # (R,)


def read(queries: QueryWords, sums: Floats, table: MatrixTable) -> Floats:
    """What the decoder reads of a word of each hypothesis (H, W), given the sums of the prefixes' quantities (H, W)."""
    assert sums.flags.c_contiguous
    assert sums.shape == (len(queries.words), queries.vectors.shape[2])
    y, scratch = np.empty(sums.shape, np.float32), np.empty(sums.shape, np.float32)
    _functions()["read"](address(queries.vectors), queries.vectors.shape[1], address(queries.owners),
                         address(queries.words), address(sums), len(sums), table.address, address(scratch),
                         address(y))
    return y


def score(last: Floats, queries: QueryWords, after: Numbers, sums: Floats, gain: Floats, offset: Floats,
          table: MatrixTable, asked: int) -> Floats:
    """The scores (R,) of words after hypotheses, whose states are `last` (H, W); see `layer_text`.

    `after` (R,) is the hypothesis of each word, `sums` (R, W) what its prefix's quantities add, and `asked` the number
    of outputs of the first matrix.
    """
    assert last.flags.c_contiguous
    assert sums.flags.c_contiguous
    (count, width), rows = last.shape, len(after)
    scores = np.empty(rows, np.float32)
    scratch = np.empty(count * (asked + width) + min(rows, SCORED) * asked, np.float32)
    _functions()["score"](address(last), count, table.address, address(gain), address(offset),
                          address(queries.vectors), queries.vectors.shape[1], address(queries.owners),
                          address(after), address(queries.words), address(sums), rows, address(scratch),
                          address(scores))
    return scores


def gelu(x: Floats) -> Floats:
    """x times the normal distribution function of x, with errors below 1e-6, for an array of any shape."""
    result = np.array(x, np.float32, order="C")
    _functions()["gelu"](address(result), result.size)
    return result


def unit(x: Floats) -> Floats:
    """Scale centred rows to length 1. Layer norm would scale them to the square root of their number of elements."""
    return _each_row("unit", x)


def centred(x: Floats) -> Floats:
    """Subtract the mean of each row."""
    return _each_row("centre", x)


def dots(first: Floats, second: Floats) -> Floats:
    """The sum of the products of each row (R, W) of one array and the same row of another: (R,)."""
    first, second = _with_rows(first), _with_rows(second)
    assert first.shape == second.shape
    result = np.zeros(len(first), np.float32)
    _functions()["dots"](address(first), first.strides[0] // 4, address(second), second.strides[0] // 4,
                         len(first), first.shape[1], address(result))
    return result


def _each_row(name: str, x: Floats) -> Floats:
    """Apply a function of rows to an array whose last axis is the row."""
    x = np.ascontiguousarray(x, np.float32)
    result = np.empty_like(x)
    width = x.shape[-1]
    _functions()[name](address(x), x.size // max(1, width), width, address(result))
    return result


def _with_rows(x: Floats) -> Floats:
    """The array (R, W) itself if it holds float32 and its rows are contiguous, else a copy."""
    return x if x.dtype == np.float32 and x.strides[1] == 4 else np.ascontiguousarray(x, np.float32)
