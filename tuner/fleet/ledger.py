"""Ledger: writes proved answers to the journal, and keeps what could not be written.

Answers wait in a queue and are written in slices, because the blocks of many members may be proved at once, and
members should not wait for the driver meanwhile. A slice is written as a whole or not at all.

Only a journal that cannot be written now (a full disk, a lock of another process) is tried again. One that was deleted,
replaced or damaged is not: the journal rescues what it has and raises FormatError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice

from seqtune.data.journal import Journal
from seqtune.errors import MisuseError, SeqtuneError, one_line

from .block import BlockEntry

SLICE = 256  # records: about 10 ms


class Ledger:
    """The way of good answers into the journal."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.unwritten: deque[BlockEntry] = deque()
        self.fault = ""  # why the journal could not be written the last time
        self.written = 0
        self.doubled = 0  # records that the journal had already

    def take(self, entries: Iterable[BlockEntry]) -> None:
        """Queue answers that a control has proved."""
        self.unwritten.extend(entries)

    def write(self) -> Sequence[BlockEntry]:
        """Write a slice and return it; if the journal cannot be written, note the fault and return nothing.

        Raises FormatError if the journal is lost.
        """
        entries = list(islice(self.unwritten, SLICE))
        if not entries:
            return entries
        try:
            added = self.journal.add_all([entry.record() for entry in entries])
        except MisuseError:
            raise
        except SeqtuneError as error:
            self.fault = one_line(error)
            return []
        for entry in entries:
            self.unwritten.popleft()
            entry.search.unwritten -= 1
        self.written += added
        self.doubled += len(entries) - added
        self.fault = ""
        return entries
