"""Guard: a process that outlives the worker for a moment, kills the programs that the worker left, and cleans up.

It runs as a script of its own, reads `+GROUP` and `-GROUP` from its input, and acts when the input ends, which also
happens when the worker is killed. It imports nothing of seqtune: it has to start quickly.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys


def main() -> None:
    """Remember process groups until the input ends, then kill those left and remove the folder named by argument 1."""
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
    shutil.rmtree(sys.argv[1], ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
