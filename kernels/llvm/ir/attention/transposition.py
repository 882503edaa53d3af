"""Transposition between rows of queries and vectors of queries, as LLVM IR functions.

They form one module for each width of vectors, which all tiles of this width share and which is built once.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...text.elements import FP32, Element
from ...text.writer import Writer, declarations

_ROWS_TO_LANES = "ptr %from, i64 %from_row, ptr %to, i64 %columns, float %factor, i64 %vectors"
LANES_TO_ROWS = "ptr %from, ptr %factors, ptr %to, i64 %to_row, i64 %columns, i64 %vectors"
DECLARATIONS = f"declare void @seqtune_to_lanes({_ROWS_TO_LANES})\ndeclare void @seqtune_to_rows({LANES_TO_ROWS})"


def transposed(write: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """Transpose `lanes` vectors of `lanes` floats: interleaving their halves log2(lanes) times."""
    order = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
    vectors = list(rows)
    for _ in range(lanes.bit_length() - 1):
        vectors = [write.shuffle(lanes, low, high, half)
                   for low, high in zip(vectors[:lanes // 2], vectors[lanes // 2:], strict=True)
                   for half in (order[:lanes], order[lanes:])]
    return vectors


def transpositions(lanes: int) -> str:
    """The module of `seqtune_to_lanes` and `seqtune_to_rows`; there are at least `lanes` columns."""
    return "\n".join([declarations(lanes), _rows_to_lanes(lanes), lanes_to_rows(lanes)])


def _rows_to_lanes(lanes: int) -> str:
    """Write `to[column][row] = factor * from[row][column]` for lanes x vectors rows.

    The last block of columns overlaps its predecessor.
    """
    write, kind = Writer(), f"<{lanes} x float>"
    factor = write.splat(lanes, "%factor")
    last, step = write.i64("sub", "%columns", lanes), write.mul("%vectors", lanes)
    with write.loop(0, "%columns", lanes) as begin, write.loop(0, "%vectors") as vector:
        column = write.i64("umin", begin, last)
        first = write.mul(vector, lanes)
        row = write.at(write.at("%from", column), write.mul(first, "%from_row"))
        to = write.at(write.at("%to", write.mul(column, step)), first)
        loaded = []
        for _ in range(lanes):
            loaded.append(write.load(kind, row))
            row = write.at(row, "%from_row")
        for value in transposed(write, lanes, loaded):
            write.store(kind, write.let(f"fmul {kind} {value}, {factor}"), to)
            to = write.at(to, step)
    return write.function(f"void @seqtune_to_lanes({_ROWS_TO_LANES})")


def lanes_to_rows(lanes: int, name: str = "seqtune_to_rows", element: Element = FP32) -> str:
    """Write `to[row][column] = factors[row] * from[column][row]`, the way back, as elements of `to`."""
    write, kind = Writer(), f"<{lanes} x float>"
    last, step = write.i64("sub", "%columns", lanes), write.mul("%vectors", lanes)
    with write.loop(0, "%columns", lanes) as begin, write.loop(0, "%vectors") as vector:
        column = write.i64("umin", begin, last)
        first = write.mul(vector, lanes)
        factor = write.load(kind, write.at("%factors", first))
        from_ = write.at(write.at("%from", write.mul(column, step)), first)
        row = element.at(write, element.at(write, "%to", column), write.mul(first, "%to_row"))
        loaded = []
        for _ in range(lanes):
            loaded.append(write.let(f"fmul {kind} {write.load(kind, from_)}, {factor}"))
            from_ = write.at(from_, step)
        for value in transposed(write, lanes, loaded):
            element.store(write, lanes, value, row)
            row = element.at(write, row, "%to_row")
    return write.function(f"void @{name}({LANES_TO_ROWS})")
