"""LocalFolder: a temporary folder of a driver or a member. It goes with its process, or later if that was killed."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .file_lock import lock

PREFIX = "seqtune-ray-"  # of the folder of a local fleet's Ray
MEMBER_PREFIX = "seqtune-member-"  # of the folder of the libraries that a member was sent
LONGEST = 30  # characters of the folder above: the paths of Ray's sockets have at most 107
NEW = 60.0  # seconds; a folder without a lock that is younger is about to be locked by its process


class LocalFolder:
    """A folder that is locked by the process that made it, so that others see whether it is in use."""

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
        """Remove the folder. It may be called twice, by two threads."""
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
