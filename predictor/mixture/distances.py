"""Distances: how far points are from known ones. The function is compiled for this CPU on the first call.

The squares of the differences are added in the order of the coordinates, each rounded to 64 bits: a distance does not
depend on other points, addresses or the CPU's vectors, as a product by BLAS would.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.writer import Writer, declarations
from seqtune.kernels.task import Floats

from ..compiled import Functions, address, compiled

BLOCK = 32  # known points whose sums stay in registers while the coordinates of a point are read
_LANES = 8  # doubles of a vector of the module: the registers of AVX-512; LLVM splits it for other CPUs
_VECTOR = f"<{_LANES} x double>"
_SIGNATURES = {"squares": "ptr %asked, i64 %rows, i64 %coordinates, ptr %known, i64 %blocks, ptr %y"}


class KnownPoints:
    """Known points in blocks, so that the distances from a whole block are computed together."""

    def __init__(self, points: NDArray[np.float32]) -> None:
        """Copy the points (N, coordinate) into blocks; zeros fill the last one."""
        self.count, self._coordinates = points.shape
        blocks = -(-self.count // BLOCK)
        padded = np.zeros((blocks * BLOCK, self._coordinates))
        padded[:self.count] = points
        self._table = np.ascontiguousarray(  # (block, coordinate, point of the block)
            padded.reshape(blocks, BLOCK, self._coordinates).transpose(0, 2, 1))

    def distances(self, asked: Floats) -> Floats:
        """The Euclidean distances of points (M, coordinate) from the known ones: (M, N), of 64 bits."""
        assert asked.shape[1] == self._coordinates
        asked = np.ascontiguousarray(asked, np.float64)
        squares = np.zeros((len(asked), len(self._table) * BLOCK))
        if self._coordinates:
            _functions()["squares"](address(asked), *asked.shape, address(self._table), len(self._table),
                                    address(squares))
        return np.sqrt(squares[:, :self.count])


@cache
def _functions() -> Functions:
    return compiled(_text, _SIGNATURES)


def _text(bits: int) -> str:
    """The module: loops over the blocks, the points that are asked for, and the coordinates in their order."""
    write = Writer()
    pitch = write.mul("%blocks", BLOCK)  # doubles of a row of %y
    with write.loop(0, "%blocks") as block:
        known = write.at("%known", write.mul(block, write.mul("%coordinates", BLOCK)), "double")
        with write.loop(0, "%rows") as row:

            def step(carried: list[str]) -> list[str]:
                """One coordinate: add the squared differences of a point asked for from all points of the block."""
                x, points, *sums = carried
                first = write.let(f"insertelement {_VECTOR} poison, double {write.load('double', x)}, i32 0")
                splat = write.let(f"shufflevector {_VECTOR} {first}, {_VECTOR} poison, "
                                  f"<{_LANES} x i32> zeroinitializer")
                totals = []
                for lane, total in zip(range(0, BLOCK, _LANES), sums, strict=True):
                    others = write.load(_VECTOR, write.at(points, lane, "double"))
                    difference = write.let(f"fsub {_VECTOR} {splat}, {others}")
                    square = write.let(f"fmul {_VECTOR} {difference}, {difference}")
                    totals.append(write.let(f"fadd {_VECTOR} {total}, {square}"))
                return [write.at(x, 1, "double"), write.at(points, BLOCK, "double"), *totals]

            initial = [("ptr", write.at("%asked", write.mul(row, "%coordinates"), "double")), ("ptr", known),
                       *[(_VECTOR, "zeroinitializer")] * (BLOCK // _LANES)]
            squares = write.repeat("%coordinates", initial, step)[2:]
            target = write.at("%y", write.add(write.mul(row, pitch), write.mul(block, BLOCK)), "double")
            for lane, total in zip(range(0, BLOCK, _LANES), squares, strict=True):
                write.store(_VECTOR, total, write.at(target, lane, "double"))
    function = write.function(f"void @squares({_SIGNATURES['squares']})")
    return f"{declarations()}\n{function}"
