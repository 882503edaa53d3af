"""Winograd's transforms of one tile F(m x m, 3 x 3): the filter's with NumPy, the input's and the output's as LLVM IR.

A tile of alpha = m + 2 points a side is a Toom-Cook product at the points 0, +-a, (+-b,) infinity: in one dimension the
outputs are A^T ((G filter) * (B^T input)); in two, the transforms are applied along both axes [A. Lavin, S. Gray, "Fast
Algorithms for Convolutional Neural Networks", CVPR 2016]. That paper's points 1 and 2 for F(4, 3) lose two to three
times as much precision as 5/8 and 3/2, whose powers fp32 represents exactly, too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..text.writer import Writer

POINTS = {2: (1.0,), 4: (0.625, 1.5)}  # m -> a, b


def filter_transform(m: int) -> NDArray[np.float64]:
    """G along both axes: maps a filter's taps, in row order, to its values at every pair of points.

    Shape (alpha * alpha, 9).
    """
    points = [0.0, *(sign * point for point in POINTS[m] for sign in (1, -1))]
    rows = [np.array([1, p, p * p]) / np.prod([p - q for q in points if q != p]) for p in points]
    g = np.array([*rows, np.array([0.0, 0.0, 1.0])])
    return np.kron(g, g)


class Lanes:
    """Arithmetic on vectors of `lanes` floats."""

    def __init__(self, write: Writer, lanes: int) -> None:
        self.write, self.lanes = write, lanes

    def constant(self, value: float) -> str:
        """A vector that holds one number in every lane."""
        bits = np.array(np.float32(value), np.float64).view(np.uint64)  # how IR writes a float exactly
        return f"splat (float 0x{int(bits):016X})"

    def add(self, a: str, b: str) -> str:
        """a + b."""
        return self.write.let(f"fadd <{self.lanes} x float> {a}, {b}")

    def sub(self, a: str, b: str) -> str:
        """a - b."""
        return self.write.let(f"fsub <{self.lanes} x float> {a}, {b}")

    def scaled(self, factor: float, a: str, b: str | None = None) -> str:
        """factor * a, plus b where it is given."""
        if b is None:
            return a if factor == 1 else self.write.let(f"fmul <{self.lanes} x float> {a}, {self.constant(factor)}")
        if abs(factor) == 1:
            return self.add(b, a) if factor == 1 else self.sub(b, a)
        return self.write.fma(self.lanes, self.constant(factor), a, b)


def input_values(lanes: Lanes, d: Sequence[str]) -> list[str]:
    """B^T in one dimension: maps alpha inputs to their values at 0, a, -a, (b, -b,) infinity."""
    if len(d) == 4:
        (a,) = POINTS[2]
        return [lanes.scaled(-a * a, d[0], d[2]), lanes.scaled(a, d[1], d[2]), lanes.scaled(-a, d[1], d[2]),
                lanes.scaled(-a * a, d[1], d[3])]
    a, b = POINTS[4]
    both, product = -(a * a + b * b), a * a * b * b
    values = [lanes.scaled(product, d[0], lanes.scaled(both, d[2], d[4]))]
    for point, other in ((a, b), (b, a)):
        even = lanes.scaled(-other * other, d[2], d[4])
        odd = lanes.scaled(-other * other, d[1], d[3])
        values += [lanes.scaled(point, odd, even), lanes.scaled(-point, odd, even)]
    return [*values, lanes.scaled(product, d[1], lanes.scaled(both, d[3], d[5]))]


def output_values(lanes: Lanes, v: Sequence[str]) -> list[str]:
    """A^T in one dimension: maps products at alpha points to m outputs."""
    even, odd = lanes.add(v[1], v[2]), lanes.sub(v[1], v[2])
    if len(v) == 4:
        (a,) = POINTS[2]
        return [lanes.add(v[0], even), lanes.scaled(a, odd, v[3])]
    a, b = POINTS[4]
    even2, odd2 = lanes.add(v[3], v[4]), lanes.sub(v[3], v[4])
    return [lanes.add(v[0], lanes.add(even, even2)), lanes.scaled(b, odd2, lanes.scaled(a, odd)),
            lanes.scaled(b * b, even2, lanes.scaled(a * a, even)),
            lanes.scaled(b ** 3, odd2, lanes.scaled(a ** 3, odd, v[5]))]


def transposed(write: Writer, lanes: int, vectors: Sequence[str]) -> list[tuple[str, int]]:
    """Transpose 2 or 4 vectors of channels.

    Returns (vector, lane) for each channel: from that lane on, 2 or 4 neighbouring lanes are its values.
    """
    low = [lane for base in range(0, lanes, 4) for lane in (base, lanes + base, base + 1, lanes + base + 1)]
    high = [lane + 2 for lane in low]
    if len(vectors) == 2:
        halves = [write.shuffle(lanes, vectors[0], vectors[1], order) for order in (low, high)]
        return [(halves[channel % 4 // 2], channel // 4 * 4 + channel % 2 * 2) for channel in range(lanes)]
    pairs = [write.shuffle(lanes, a, b, order) for order in (low, high)
             for a, b in ((vectors[0], vectors[1]), (vectors[2], vectors[3]))]
    first = [lane for base in range(0, lanes, 4) for lane in (base, base + 1, lanes + base, lanes + base + 1)]
    second = [lane + 2 for lane in first]
    rows = [write.shuffle(lanes, a, b, order) for a, b in (pairs[:2], pairs[2:]) for order in (first, second)]
    return [(rows[channel % 4], channel // 4 * 4) for channel in range(lanes)]


def square(write: Writer, size: int, rows: Sequence[str]) -> list[str]:
    """Transpose a square of 1, 4, 8 or 16 vectors."""
    if size == 1:
        return list(rows)
    quads: list[list[str]] = []  # [quad][row in a quad]: 4 x 4 inside 128 bits
    for quad in range(0, size, 4):
        pairs = transposed(write, size, rows[quad:quad + 4])
        quads.append([pairs[row][0] for row in range(4)])
    result = [""] * size
    for row in range(4):
        column = [quad_rows[row] for quad_rows in quads]
        step = 1
        while step < len(column):  # swap 128-bit pieces across the diagonal
            for index in range(len(column)):
                if index & step:
                    continue
                a, b = column[index], column[index + step]
                pieces = range(len(column))
                low = [piece if not piece & step else len(column) + piece - step for piece in pieces]
                high = [piece + step if not piece & step else len(column) + piece for piece in pieces]
                column[index], column[index + step] = (
                    write.shuffle(size, a, b, [4 * piece + lane for piece in order for lane in range(4)])
                    for order in (low, high))
            step *= 2
        for quad, vector in enumerate(column):
            result[4 * quad + row] = vector
    return result
