"""JournalFile: whether the file of an open journal is still the one that was opened.

SQLite goes on writing into a file that was deleted, renamed or replaced, and these records are lost at the end.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path


class JournalFile:
    """The identity of a journal's file while it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = path.with_name(path.name + "-wal")
        self._opened = _identity(path)
        self._opened_log = _identity(self._log)  # None before the first record
        self.size = 0  # bytes at the last check

    def fault(self) -> str | None:
        """The change of the file since it was opened, such as its deletion; None without one. Takes microseconds."""
        try:
            status = os.stat(self.path)
        except OSError:
            return "was deleted or renamed"
        now, log = (status.st_dev, status.st_ino), _identity(self._log)
        if self._opened is not None and now != self._opened:
            return "was replaced by another file"
        self._opened = now
        if log != self._opened_log and self._opened_log is not None:
            return f"has lost its log {self._log.name}, which was deleted or replaced"
        self._opened_log = log
        if status.st_size < self.size:
            return f"was truncated from {self.size} to {status.st_size} bytes"
        self.size = status.st_size
        return None


def integrity_fault(connection: sqlite3.Connection) -> str | None:
    """The fault that SQLite finds in the structure of the file, which it reads whole, or None."""
    try:
        (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        return f"is damaged ({error})"
    return None if finding == "ok" else f"is damaged ({' '.join(str(finding).split())[:100]})"


def rescue(connection: sqlite3.Connection, path: Path) -> str:
    """Copy what an open connection still reads to a new file beside the journal; return a message about the result."""
    for number in range(1, 100):
        copy = path.with_name(f"{path.name}.rescued-{number}")
        if copy.exists():
            continue
        try:
            connection.execute("VACUUM INTO ?", (os.path.abspath(copy),))
        except sqlite3.Error as error:
            with suppress(OSError):
                copy.unlink(missing_ok=True)
            return f"what this process wrote could not be saved ({error})"
        return f"all records are saved in {copy}"
    return f"what this process wrote was not saved: {path.name}.rescued-1 to -99 exist"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
