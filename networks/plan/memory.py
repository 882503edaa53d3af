"""Memory: the buffers of a network, and where those between its operations lie in one block.

A buffer lives from the first job that writes it to the last that reads it. Buffers whose lives do not meet share
memory, the one that was freed last first, so that results stay in the caches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

LINE = 64  # bytes of a cache line: buffers begin at one


@dataclass(eq=False, slots=True)
class Buffer:
    """Contiguous memory. `kind` is "inner" (planned here), "constant", "operand" or "result"."""

    size: int  # in bytes
    kind: str = "inner"
    number: int = 0  # index of an operand or a result
    first: int = -1  # the first job that uses it; -1: none
    last: int = -1
    begin: int = 0  # offset of an inner buffer in the block, in bytes

    def used_by(self, job: int) -> None:
        """Note that a job reads or writes the buffer."""
        self.first = job if self.first < 0 else min(self.first, job)
        self.last = max(self.last, job)


def plan(buffers: Sequence[Buffer]) -> int:
    """Set the offsets of inner buffers; return the bytes of the block.

    Large buffers come first; each gets the lowest offset that is free during its life (greedy by size, as in
    Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020).
    """
    planned: list[Buffer] = []
    for buffer in sorted((buffer for buffer in buffers if buffer.first >= 0), key=lambda buffer: -buffer.size):
        size = _rounded(buffer.size)
        begin = 0
        for other in sorted((other for other in planned if other.first <= buffer.last and buffer.first <= other.last),
                            key=lambda other: other.begin):
            if other.begin >= begin + size:
                break
            begin = max(begin, other.begin + _rounded(other.size))
        buffer.begin = begin
        planned.append(buffer)
    return max((buffer.begin + _rounded(buffer.size) for buffer in planned), default=0)


def _rounded(size: int) -> int:
    return -(-size // LINE) * LINE
