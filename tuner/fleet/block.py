"""Answers of a member between two of its controls, which count only together."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from seqtune.data.record import Measurement, Record
from seqtune.kernels.kernel import Configuration

from .batch import Purpose
from .group_search import GroupSearch


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """One answer. The search has it, the journal not yet."""

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
    """A block. It is opened by the first batch after a control and closed by the next control."""

    opened: float  # engine's seconds
    entries: list[BlockEntry] = field(default_factory=list)
    batches: int = 0  # handed out and not finished
    closing: bool = False  # its control was handed out

    def mark_loaded(self) -> None:
        """Mark all answers as measured under load."""
        self.entries = [replace(entry, loaded=True) for entry in self.entries]

    def discard(self) -> int:
        """Take all answers back from their searches; return their number."""
        by_search: dict[tuple[int, Purpose], list[BlockEntry]] = {}
        for entry in self.entries:
            entry.search.unwritten -= 1
            by_search.setdefault((id(entry.search), entry.purpose), []).append(entry)
        for entries in by_search.values():
            entries[0].search.discard(entries[0].purpose, [entry.configuration for entry in entries])
        count = len(self.entries)
        self.entries = []
        return count
