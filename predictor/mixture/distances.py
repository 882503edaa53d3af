"""Distances: how far points are from known ones, compiled for this CPU on the first call.

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
_LANES = 8
_VECTOR = f"<{_LANES} x double>"
_SIGNATURES = {"squares": "ptr %asked, i64 %rows, i64 %coordinates, ptr %known, i64 %blocks, ptr %y"}


class KnownPoints:
    """Known points, laid out so that distances from them are computed fast."""

    def __init__(self, points: NDArray[np.float32]) -> None:
        """Take points (N, coordinate)."""
        self.count, self._coordinates = points.shape
        blocks = -(-self.count // BLOCK)
        padded = np.zeros((blocks * BLOCK, self._coordinates))
        padded[:self.count] = points
        self._table = np.ascontiguousarray(  # (block, coordinate, point of the block)
            padded.reshape(blocks, BLOCK, self._coordinates).transpose(0, 2, 1))

    def distances(self, asked: Floats) -> Floats:
        """The Euclidean distances of points (M, coordinate) from the known ones: (M, N)."""
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
    """The module; LLVM cuts its vectors into those of the CPU."""
    write = Writer()
    pitch = write.mul("%blocks", BLOCK)
    with write.loop(0, "%blocks") as block:
        known = write.at("%known", write.mul(block, write.mul("%coordinates", BLOCK)), "double")
        with write.loop(0, "%rows") as row:

            def step(carried: list[str]) -> list[str]:
                x, points, *sums = carried
                first = write.let(f"insertelement {_VECTOR} poison, double {write.load('double', x)}, i32 0")
                own = write.let(f"shufflevector {_VECTOR} {first}, {_VECTOR} poison, <{_LANES} x i32> zeroinitializer")
                longer = []
                for lane, total in zip(range(0, BLOCK, _LANES), sums, strict=True):
                    others = write.load(_VECTOR, write.at(points, lane, "double"))
                    away = write.let(f"fsub {_VECTOR} {own}, {others}")
                    square = write.let(f"fmul {_VECTOR} {away}, {away}")
                    longer.append(write.let(f"fadd {_VECTOR} {total}, {square}"))
                return [write.at(x, 1, "double"), write.at(points, BLOCK, "double"), *longer]

            begun = [("ptr", write.at("%asked", write.mul(row, "%coordinates"), "double")), ("ptr", known),
                     *[(_VECTOR, "zeroinitializer")] * (BLOCK // _LANES)]
            to = write.at("%y", write.add(write.mul(row, pitch), write.mul(block, BLOCK)), "double")
            for lane, total in zip(range(0, BLOCK, _LANES), write.repeat("%coordinates", begun, step)[2:], strict=True):
                write.store(_VECTOR, total, write.at(to, lane, "double"))
    function = write.function(f"void @squares({_SIGNATURES['squares']})")
    return f"{declarations()}\n{function}"
