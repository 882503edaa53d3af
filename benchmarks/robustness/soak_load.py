"""SoakLoad: the memory of a process that tunes and of its workers, while it runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import psutil

from benchmarks.common.report import Row

EVERY = 10.0  # seconds between two looks at the memory


def memory(process: psutil.Process) -> Row:
    """The resident bytes of a process, those of its descendants, and the proportional bytes of all together."""
    row: Row = {"driver": process.memory_info().rss, "workers": 0, "together": 0, "processes": 0}
    for number, member in enumerate([process, *process.children(recursive=True)]):
        with suppress(psutil.Error):  # a worker has ended meanwhile
            row["together"] += member.memory_full_info().pss
            row["workers"] += member.memory_info().rss if number else 0
            row["processes"] += 1
    return row


def watched(command: Sequence[str]) -> Iterator[Row]:
    """Run a command; yield its memory every ten seconds, and at the end a row with its exit status and last error."""
    begin = time.monotonic()
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    looked = psutil.Process(process.pid)
    while True:
        try:
            _, errors = process.communicate(timeout=EVERY)
            break
        except subprocess.TimeoutExpired:
            with suppress(psutil.Error):
                yield {"at": time.monotonic() - begin, **memory(looked)}
    yield {"at": time.monotonic() - begin, "status": process.returncode, "error": errors.strip()[-1000:]}
