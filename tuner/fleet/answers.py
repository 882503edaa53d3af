"""Answers of members on their way to the journal: in blocks until a control proves them, then in a queue for writing.

Many blocks may be proved at once, and members should not wait for the driver meanwhile. Therefore at most AT_ONCE
records are written at a time, all of them or none.

A write is repeated if the journal cannot be written now (a full disk, a lock of another process). A journal that was
deleted, replaced or damaged rescues its records and raises FormatError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record
from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.kernel import Configuration

from .batch import Purpose
from .group_search import GroupSearch

AT_ONCE = 256  # records of one write: about 10 ms


@dataclass(frozen=True, slots=True)
class Answer:
    """A measurement of a member that is not in the journal yet, but has been passed to its search."""

    search: GroupSearch
    purpose: Purpose
    configuration: Configuration
    measurement: Measurement
    when: float  # seconds since 1970
    host: str
    loaded: bool = False  # its control was disturbed by other work on the host

    def record(self) -> Record:
        """The record of the answer."""
        run = "final" if self.purpose is Purpose.COMPARE else self.search.options.strategy
        record = self.search.search.record_of(self.configuration, self.measurement, run, self.when, self.host)
        return replace(record, loaded=True) if self.loaded else record


@dataclass(slots=True, eq=False)
class AnswerBlock:
    """The answers of a member between two of its controls, which are accepted or discarded together.

    The first batch after a control opens a block, the next control closes it.
    """

    opened: float  # engine's seconds
    answers: list[Answer] = field(default_factory=list)
    batches: int = 0  # handed out and not finished
    closing: bool = False  # its control was handed out

    def mark_loaded(self) -> None:
        """Mark all answers as measured under load."""
        self.answers = [replace(answer, loaded=True) for answer in self.answers]

    def discard(self) -> None:
        """Take all answers back from their searches."""
        by_search: dict[tuple[int, Purpose], list[Answer]] = {}
        for answer in self.answers:
            answer.search.unwritten -= 1
            by_search.setdefault((id(answer.search), answer.purpose), []).append(answer)
        for answers in by_search.values():
            answers[0].search.discard(answers[0].purpose, [answer.configuration for answer in answers])
        self.answers = []


class JournalWriter:
    """Buffers answers that a control has proved and writes them to the journal; a write that failed is repeated."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.unwritten: deque[Answer] = deque()
        self.fault = ""  # why the journal could not be written the last time
        self.doubled = 0  # records that the journal had already

    def add(self, answers: Iterable[Answer]) -> None:
        """Queue answers that a control has proved."""
        self.unwritten.extend(answers)

    def write(self) -> Sequence[Answer]:
        """Write up to AT_ONCE answers and return them; note a fault if the journal cannot be written, and return none.

        Raises FormatError if the journal is lost.
        """
        answers = list(islice(self.unwritten, AT_ONCE))
        if not answers:
            return answers
        try:
            added = self.journal.add_all([answer.record() for answer in answers])
        except MisuseError:
            raise
        except SeqtuneError as error:
            self.fault = one_line(error)
            return []
        for answer in answers:
            self.unwritten.popleft()
            answer.search.unwritten -= 1
        self.doubled += len(answers) - added
        self.fault = ""
        return answers
