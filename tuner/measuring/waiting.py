"""Waiting: the time in which threads of this process could have run and did not, because other work had their CPU.

A kernel on several threads ends when its last thread ends. If one of them is not scheduled, the sample takes up to ten
times as long, although no thread worked longer. Linux counts for each thread the time that it spent runnable without
running (the second number of /proc/PID/task/TID/schedstat, in nanoseconds; see the kernel's sched-stats.rst). A thread
that spins counts as running and one that sleeps as not runnable, so neither adds to it. Elsewhere the time is 0.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_TASKS = Path("/proc/self/task")


class Waiting:
    """Reads the waiting time of the threads that exist now. Use it as a context manager: it holds files open."""

    def __init__(self) -> None:
        self._files: list[int] = []
        with suppress(OSError):  # no /proc, or a thread that ended meanwhile
            for task in _TASKS.iterdir():
                with suppress(OSError):
                    self._files.append(os.open(task / "schedstat", os.O_RDONLY))

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()

    def seconds(self) -> float:
        """The seconds that these threads have waited so far, in sum."""
        waited = 0
        for file in self._files:
            with suppress(OSError, ValueError, IndexError):  # the thread has ended
                waited += int(os.pread(file, 64, 0).split()[1])
        return waited * 1e-9
