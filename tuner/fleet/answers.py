"""Answers of members on their way to the journal: with their member until a control proves them, then in a queue.

Many answers may be proved at once, and members should not wait for the driver meanwhile. Therefore at most AT_ONCE
records are written at a time, all of them or none.

A write is repeated if the journal cannot be written now (a full disk, a lock of another process). A journal that was
deleted, replaced or damaged rescues its records and raises FormatError.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.errors import MisuseError, SeqtuneError, one_line

from .batch import Purpose
from .group_search import GroupSearch

AT_ONCE = 256  # records of one write: about 10 ms
RETRY_SECONDS = 5.0  # before a write that failed is tried again
PATIENCE = 600.0  # seconds to wait for a journal that cannot be written (a full disk) before the run ends


@dataclass(frozen=True, slots=True)
class Answer:
    """A measurement of a member that is not in the journal yet, but has been passed to its search."""

    search: GroupSearch
    purpose: Purpose
    record: Record


class JournalWriter:
    """Buffers answers that a control has proved and writes them to the journal; a write that failed is repeated."""

    def __init__(self, journal: Journal, now: Callable[[], float]) -> None:
        """Begin. `now` tells the engine's seconds."""
        self.journal = journal
        self.unwritten: deque[Answer] = deque()
        self.fault = ""  # why the journal cannot be written
        self.doubled = 0  # records that the journal had already
        self._now = now
        self._since, self._retry_at = math.inf, -math.inf  # of the fault, in engine's seconds

    def write(self) -> list[GroupSearch]:
        """Write up to AT_ONCE answers; return their searches, none where nothing can be written now.

        Raises FormatError if the journal is lost, and SeqtuneError if it could not be written for PATIENCE.
        """
        now, answers = self._now(), list(islice(self.unwritten, AT_ONCE))
        if not answers or (self.fault and now < self._retry_at):
            return []
        try:
            added = self.journal.add_all([answer.record for answer in answers])
        except MisuseError:
            raise
        except SeqtuneError as error:
            self.fault, self._since, self._retry_at = one_line(error), min(self._since, now), now + RETRY_SECONDS
            if now - self._since > PATIENCE:
                raise SeqtuneError(
                    f"{self.fault} (for {PATIENCE:.0f} s); {len(self.unwritten)} measurements are not in it; make room "
                    "and run again to measure them again") from None
            return []
        for answer in answers:
            self.unwritten.popleft()
            answer.search.unwritten -= 1
        self.doubled += len(answers) - added
        self.fault, self._since = "", math.inf
        return list(dict.fromkeys(answer.search for answer in answers))
