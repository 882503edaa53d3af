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

PAUSE = 0.002  # seconds after a turn, so that those who wait wake up before the same process asks again


@contextmanager
def cpu_turn() -> Iterator[None]:
    """Wait for this user's turn on the CPUs of this machine, and hold it. The turn of a process that dies ends, too.

    Raises UnavailableError if the file that marks the turn cannot be locked.
    """
    # The name of the machine: the temporary folder may be one that several machines share.
    path = Path(tempfile.gettempdir()) / f"seqtune-turn-{os.getuid()}-{socket.gethostname()}"
    try:
        import fcntl

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except (ImportError, OSError) as error:  # Linux and macOS have such locks
        raise UnavailableError(f"members cannot take turns by {path}: {error}") from None
    try:
        if os.fstat(descriptor).st_uid != os.getuid():
            raise UnavailableError(f"{path} belongs to another user; remove it, or set TMPDIR")
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # ends the turn
        time.sleep(PAUSE)
