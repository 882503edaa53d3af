"""Local files: the turn on a machine's CPUs and folders for a while, locked by the processes that use them.

A lock ends with its process, also if that is killed. Linux and macOS have such locks.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqtune.errors import UnavailableError

PREFIX = "seqtune-ray-"  # of the folder of a local fleet's Ray
MEMBER_PREFIX = "seqtune-member-"  # of the folder of the libraries that a member was sent
LONGEST = 30  # characters of the folder above: the paths of Ray's sockets have at most 107
NEW = 60.0  # seconds; a folder without a lock that is younger is about to be locked by its process
PAUSE = 0.002  # seconds after a turn, so that those who wait wake up before the same process asks again


@contextmanager
def cpu_turn() -> Iterator[None]:
    """Wait for the turn on this machine's CPUs, and hold it, so that no member's measurement disturbs another one.

    A batch is built in its turn, too: compilers run on the CPUs that its kernels are measured on. GPUs need no turns,
    because each has a member of its own. Raises UnavailableError if the file that marks the turn cannot be opened.
    """
    # The name of the machine: the temporary folder may be one that several machines share.
    path = Path(tempfile.gettempdir()) / f"seqtune-turn-{os.getuid()}-{socket.gethostname()}"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UnavailableError(f"members cannot take turns: {path}: {error.strerror}") from None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise UnavailableError(f"members cannot take turns: {path} belongs to another user; remove it, or set "
                                   "TMPDIR")
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)  # ends the turn
        time.sleep(PAUSE)


class LocalFolder:
    """A temporary folder that is locked by the process that made it, so that others see whether it is in use."""

    def __init__(self, prefix: str = PREFIX, spared: float = NEW) -> None:
        """Make the folder. Those with the same prefix whose processes have ended are removed.

        A folder without a lock is spared for `spared` seconds.
        """
        base = tempfile.gettempdir()
        above = Path(base if len(base) < LONGEST else "/tmp")
        _remove_old(above, prefix, spared)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        lock(self._descriptor)

    def remove(self) -> None:
        """Remove the folder. It may be called twice."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(descriptor)


def _remove_old(above: Path, prefix: str, spared: float) -> None:
    """Remove the folders of this user whose processes were killed."""
    for path in above.glob(f"{prefix}*"):
        with suppress(OSError):  # it belongs to another user, or has just been removed
            if path.is_symlink() or path.stat().st_uid != os.getuid() or time.time() - path.stat().st_mtime < spared:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                lock(descriptor, waiting=False)  # fails while its process lives
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def lock(descriptor: int, waiting: bool = True) -> None:
    """Lock what is open; it is unlocked when it is closed. Raises OSError if it is locked and nobody may wait.

    Raises UnavailableError on a system without such locks.
    """
    try:
        import fcntl
    except ImportError:
        raise UnavailableError("a fleet needs locks of files (fcntl), which this system does not have") from None
    fcntl.flock(descriptor, fcntl.LOCK_EX if waiting else fcntl.LOCK_EX | fcntl.LOCK_NB)
