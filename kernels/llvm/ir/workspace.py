"""Pieces of the workspace: every thread's own.

Tasks are split evenly over the threads (`seqtune.kernels.implementation.Phase`), so the first one of a thread's share
tells which thread it is: the least i with floor(tasks * i / threads) = begin, which is ceil(begin * threads / tasks).
"""

from __future__ import annotations

from .writer import Writer


def pieces(threads: int, tasks: int) -> int:
    """How many the workspace must hold: one for one task; two tasks may be those of the last two of three threads."""
    return threads if tasks > 1 else 1


def write_piece(write: Writer, threads: str, tasks: str, floats: str) -> str:
    """The pointer to the piece, of so many floats, of the thread whose share begins with the task %begin."""
    up = write.add(write.mul("%begin", threads), write.i64("sub", tasks, 1))
    return write.at("%workspace", write.mul(write.i64("udiv", up, tasks), floats))
