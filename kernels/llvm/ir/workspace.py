"""Workspace: the slice of each thread.

Tasks are split evenly over the threads (`seqtune.kernels.llvm.launch`), so the first task of a thread's share
identifies the thread: the least i with floor(tasks * i / threads) = begin, which is ceil(begin * threads / tasks).
"""

from __future__ import annotations

from ..text.writer import Writer


def pieces(threads: int, tasks: int) -> int:
    """The number of slices. With one task, one slice; otherwise any thread may receive work, so one per thread."""
    return threads if tasks > 1 else 1


def write_piece(write: Writer, threads: str, tasks: str, floats: str) -> str:
    """The pointer to the slice of the thread whose share begins with the task %begin; a slice has `floats` floats."""
    up = write.add(write.mul("%begin", threads), write.i64("sub", tasks, 1))
    return write.at("%workspace", write.mul(write.i64("udiv", up, tasks), floats))
