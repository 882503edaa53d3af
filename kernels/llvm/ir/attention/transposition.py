"""Transposition between rows of queries and vectors of queries, as LLVM IR functions."""

from __future__ import annotations

from collections.abc import Sequence

from ..writer import Writer

ROWS_TO_LANES = "ptr %from, i64 %from_row, ptr %to, i64 %columns, float %factor"
LANES_TO_ROWS = "ptr %from, ptr %factors, ptr %to, i64 %to_row, i64 %columns"


def transposed(write: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """Transpose `lanes` vectors of `lanes` floats: interleaving their halves log2(lanes) times."""
    order = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
    vectors = list(rows)
    for _ in range(lanes.bit_length() - 1):
        vectors = [write.shuffle(lanes, low, high, half)
                   for low, high in zip(vectors[:lanes // 2], vectors[lanes // 2:], strict=True)
                   for half in (order[:lanes], order[lanes:])]
    return vectors


def rows_to_lanes(name: str, lanes: int, vectors: int) -> str:
    """The function that writes `to[column][row] = factor * from[row][column]` for lanes x vectors rows.

    There are at least `lanes` columns; the last block of columns overlaps its predecessor.
    """
    write, kind = Writer(), f"<{lanes} x float>"
    factor = write.splat(lanes, "%factor")
    last = write.i64("sub", "%columns", lanes)
    with write.loop(0, "%columns", lanes) as begin:
        column = write.i64("umin", begin, last)
        row = write.at("%from", column)
        to = write.at("%to", write.mul(column, lanes * vectors))
        for vector in range(vectors):
            loaded = []
            for _ in range(lanes):
                loaded.append(write.load(kind, row))
                row = write.at(row, "%from_row")
            for index, value in enumerate(transposed(write, lanes, loaded)):
                write.store(kind, write.let(f"fmul {kind} {value}, {factor}"),
                            write.at(to, (index * vectors + vector) * lanes))
    return write.function(f"internal void @{name}({ROWS_TO_LANES}) noinline")


def lanes_to_rows(name: str, lanes: int, vectors: int) -> str:
    """The function that writes `to[row][column] = factors[row] * from[column][row]`, the way back."""
    write, kind = Writer(), f"<{lanes} x float>"
    last = write.i64("sub", "%columns", lanes)
    with write.loop(0, "%columns", lanes) as begin:
        column = write.i64("umin", begin, last)
        row = write.at("%to", column)
        from_ = write.at("%from", write.mul(column, lanes * vectors))
        for vector in range(vectors):
            factor = write.load(kind, write.at("%factors", vector * lanes))
            loaded = [write.let(f"fmul {kind} {value}, {factor}") for value in (
                write.load(kind, write.at(from_, (index * vectors + vector) * lanes)) for index in range(lanes))]
            for value in transposed(write, lanes, loaded):
                write.store(kind, value, row)
                row = write.at(row, "%to_row")
    return write.function(f"internal void @{name}({LANES_TO_ROWS}) noinline")
