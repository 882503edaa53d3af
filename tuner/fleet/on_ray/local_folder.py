"""LocalFolder: the folder of a local fleet's Ray. It goes with the fleet, or later if its driver was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

PREFIX = "seqtune-ray-"
LONGEST = 30  # characters of the folder above: the paths of Ray's sockets have at most 107
NEW = 60.0  # seconds for which a folder without a lock is spared: its process is about to lock it


class LocalFolder:
    """A folder that is locked by the process that made it, so that others see whether it is in use."""

    def __init__(self) -> None:
        """Make the folder. Folders of processes that have ended are removed."""
        base = tempfile.gettempdir()
        above = Path(base if len(base) < LONGEST else "/tmp")
        _remove_old(above)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
        self._descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder. It may be called twice."""
        if self._descriptor >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _remove_old(above: Path) -> None:
    """Remove the folders of this user whose processes were killed."""
    for path in above.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it belongs to another user, or has just been removed
            if path.is_symlink() or path.stat().st_uid != os.getuid() or time.time() - path.stat().st_mtime < NEW:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process lives
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)
