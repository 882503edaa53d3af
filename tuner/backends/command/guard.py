"""Guard: a process that outlives the worker for a moment, kills the programs that the worker left, and cleans up.

It runs as a script of its own, reads `+GROUP` and `-GROUP` from its input, and acts when the input ends, which also
happens when the worker is killed. A program's child in a session of its own belongs to no such group; on Linux it is
known by its environment, in which TMPDIR is the worker's private folder. It imports nothing of seqtune: it has to start
quickly.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

_SECONDS = 2.0  # for killing processes that start others as quickly as they are killed


def main() -> None:
    """Remember process groups until the input ends, then kill those left and remove the folder named by argument 1."""
    private = sys.argv[1]
    groups: set[int] = set()
    for line in sys.stdin:
        change, group = line[0], int(line[1:])
        if change == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)
    deadline = time.monotonic() + _SECONDS
    while (strays := _with_folder(private)) and time.monotonic() < deadline:  # each may start another one meanwhile
        for number in strays:
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
    shutil.rmtree(private, ignore_errors=True)


def _with_folder(private: str) -> list[int]:
    """The processes whose environment names the folder as TMPDIR; none where there is no /proc."""
    numbers = []
    with contextlib.suppress(OSError):
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if f"TMPDIR={private}".encode() in file.read().split(b"\0") and int(name) != os.getpid():
                    numbers.append(int(name))
    return numbers


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
