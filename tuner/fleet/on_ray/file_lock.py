"""File lock: a lock on an open file or folder, which ends with its process. Linux and macOS have it."""

from __future__ import annotations

from seqtune.errors import UnavailableError


def lock(descriptor: int, waiting: bool = True) -> None:
    """Lock what is open; it is unlocked when it is closed. Raises OSError if it is locked and nobody may wait.

    Raises UnavailableError on a system without such locks.
    """
    try:
        import fcntl
    except ImportError:
        raise UnavailableError("a fleet needs locks of files (fcntl), which this system does not have") from None
    fcntl.flock(descriptor, fcntl.LOCK_EX if waiting else fcntl.LOCK_EX | fcntl.LOCK_NB)
