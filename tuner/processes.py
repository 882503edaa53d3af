"""Processes: the CPUs, the number and the limits of the processes that long jobs start."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqtune import errors
from seqtune.errors import SeqtuneWarning

SOURCE = Path(errors.__file__).resolve().parent.parent  # the folder that new processes import seqtune from
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # variables that libraries read when loaded

# The CPUs that a thread could use before a pool of threads pinned it to one; empty while no pool does.
unpinned: set[int] = set()


def python_path() -> str:
    """The PYTHONPATH of a new process, which then imports seqtune from the same folder as this one."""
    return os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))


def usable_processors() -> set[int]:
    """The processors that this process may use, also while a pool of threads has pinned the calling thread to one."""
    if not hasattr(os, "sched_getaffinity"):
        return set(range(os.cpu_count() or 1))
    return set(unpinned) or os.sched_getaffinity(0)


def unpin(process: int) -> None:
    """Let a process that was just started use all processors of this one; it inherits the calling thread's pinning."""
    if unpinned:
        with suppress(OSError):  # it has ended
            os.sched_setaffinity(process, unpinned)


def processors() -> int:
    """The number of processors that this process may use."""
    return len(usable_processors())


def usable_jobs(jobs: int) -> int:
    """The number of processes that can share work: `jobs`, or one with a SeqtuneWarning where there are no semaphores.

    Python's process pools need them, and Linux keeps them in /dev/shm, which some containers lack.
    """
    if jobs <= 1:
        return jobs
    import multiprocessing  # most processes do not need it

    try:
        multiprocessing.get_context("spawn").Lock()
    except (OSError, ImportError) as error:
        warnings.warn(f"one process works instead of {jobs}: this system has no semaphores ({error}); on Linux they "
                      "need /dev/shm", SeqtuneWarning, stacklevel=2)
        return 1
    return jobs


@contextmanager
def one_thread_each() -> Iterator[None]:
    """Limit processes started in this context to one thread; libraries read these variables when they are loaded."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def die_with_parent() -> None:
    """End this process when the parent's thread ends, even if a hung driver holds the GIL. This works on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
