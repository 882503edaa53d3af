"""Transpose of a tile of vectors in registers."""

from __future__ import annotations

from collections.abc import Sequence

from seqtune.kernels.llvm.text.writer import Writer


def transposed(write: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """The columns of some vectors of `lanes` floats, one after the other; both numbers are powers of two.

    Interleaving the halves of the list log2(vectors) times gives the columns.
    """
    vectors = list(rows)
    order = [lane // 2 + (lanes if lane % 2 else 0) for lane in range(2 * lanes)]
    half = len(vectors) // 2
    for _ in range(half.bit_length()):
        vectors = [write.shuffle(lanes, low, high, chosen)
                   for low, high in zip(vectors[:half], vectors[half:], strict=True)
                   for chosen in (order[:lanes], order[lanes:])]
    return vectors


def woven(write: Writer, lanes: int, rows: Sequence[str]) -> list[str]:
    """The columns of two, three or four vectors of `lanes` floats, one after the other."""
    if len(rows) != 3:
        return transposed(write, lanes, rows)
    first, second, third = rows
    result = []
    for line in range(3):
        places = [divmod(line * lanes + lane, 3) for lane in range(lanes)]  # (column, row) of each lane
        pairs = write.shuffle(lanes, first, second, [column + lanes * (row == 1) for column, row in places])
        result.append(write.shuffle(lanes, pairs, third, [
            lanes + column if row == 2 else lane for lane, (column, row) in enumerate(places)]))
    return result
