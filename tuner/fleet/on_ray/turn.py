"""Turn: the processes of one machine take turns on its CPUs, so that no measurement disturbs another one.

A batch is built in its turn, too: compilers run on the CPUs that its kernels are measured on. GPUs need no turns,
because each has a member of its own.
"""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from seqtune.errors import UnavailableError

from .file_lock import lock

PAUSE = 0.002  # seconds after a turn, so that those who wait wake up before the same process asks again


@contextmanager
def turn(name: str) -> Iterator[None]:
    """Wait for the turn of this name on this machine, and hold it. The turn of a process that dies ends, too.

    Raises UnavailableError if the file that marks the turn cannot be opened.
    """
    folder = Path(tempfile.gettempdir()) / f"seqtune-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            raise UnavailableError(f"{folder} belongs to another user; remove it, or set TMPDIR")
        # The name of the machine: the temporary folder may be one that several machines share.
        descriptor = os.open(folder / f"turn-{socket.gethostname()}-{name}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW,
                             0o600)
    except OSError as error:
        raise UnavailableError(f"members cannot take turns: {error.filename}: {error.strerror}") from None
    try:
        lock(descriptor)
        yield
    finally:
        os.close(descriptor)  # ends the turn
        time.sleep(PAUSE)
