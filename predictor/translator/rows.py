"""Rows: matrix products, attention and functions of the rows of arrays, compiled for this CPU on the first call.

A prediction computes with these instead of NumPy's BLAS, so that it is a pure function: BLAS rounds differently where
an array lies at another address, has more rows, or runs on another CPU. Here each row of a result is computed alone, in
an order of operations that does not depend on the CPU's vectors (see `row_text`), and on the calling thread.
Arrays hold float32. Shapes: R rows, K inputs, N outputs, P positions, W width.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.aligned import aligned
from seqtune.tuner.backends.llvm.compiled import Functions, address, compiled

from .product_text import ADD, GELU, PANEL, SIGNATURES, UNIT, text
from .row_text import LANES

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]


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
