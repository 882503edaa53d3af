"""Ledger: writes blocks to the journal, and keeps what could not be written.

Only a journal that cannot be written now (a full disk, a lock of another process) is tried again. One that was deleted,
replaced or damaged is not: the journal rescues what it has and raises FormatError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from seqtune.data.journal import Journal
from seqtune.errors import MisuseError, SeqtuneError, one_line

from .block import BlockEntry


class Ledger:
    """The way of good answers into the journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.unwritten: deque[BlockEntry] = deque()
        self.fault = ""  # why the journal could not be written the last time
        self.written = 0
        self.doubled = 0  # records that the journal had already

    def write(self, entries: Iterable[BlockEntry] = ()) -> bool:
        """Write entries after those that could not be written; return whether all were.

        Raises FormatError if the journal is lost.
        """
        self.unwritten.extend(entries)
        while self.unwritten:
            entry = self.unwritten[0]
            try:
                added = self.journal.add(entry.record())
            except MisuseError:
                raise
            except SeqtuneError as error:
                self.fault = one_line(error)
                return False
            self.unwritten.popleft()
            entry.search.unwritten -= 1
            self.written += added
            self.doubled += not added
        self.fault = ""
        return True
