"""Sums across the lanes of several vectors at once."""

from __future__ import annotations

from collections.abc import Sequence

from ...text.writer import Writer


def lane_sums(write: Writer, lanes: int, vectors: Sequence[str]) -> str:
    """The sums of the lanes of each vector, in order; the number of vectors is a power of two, at most `lanes`.

    Each step adds the lower and the upper halves of groups of lanes: two vectors become one with twice as many groups.
    """
    current, group = list(vectors), lanes
    while group > 1:
        starts = range(0, lanes, group)
        halves = []
        for part in (0, group // 2):
            halves.append([start + part + lane for start in starts for lane in range(group // 2)])
        if len(current) > 1:
            current = [_paired(write, lanes, low, high, halves)
                       for low, high in zip(current[::2], current[1::2], strict=True)]
        else:
            current = [_paired(write, lanes, current[0], "poison", halves)]
        group //= 2
    return current[0] if len(vectors) == lanes else write.shuffle(lanes, current[0], "poison", range(len(vectors)))


def _paired(write: Writer, lanes: int, first: str, second: str, halves: Sequence[Sequence[int]]) -> str:
    """Add the lower and the upper halves of both vectors' groups: the groups of the first, then of the second."""
    kind = f"<{lanes} x float>"
    low, high = (write.shuffle(lanes, first, second, [*half, *(lane + lanes for lane in half)]) for half in halves)
    return write.let(f"fadd {kind} {low}, {high}")
