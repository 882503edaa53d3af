"""Turn: the lock of what runs one at a time, because it shares threads or a workspace."""

from __future__ import annotations

import os
import threading


class Turn:
    """A lock that a thread may take several times. A forked process does not wait for threads that it does not have."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_others)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _forget_others(self) -> None:
        if self._lock.acquire(blocking=False):  # it is free, or the forking thread has it
            self._lock.release()
        else:
            self._lock = threading.RLock()
