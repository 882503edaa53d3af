"""MemberState: what the driver knows of a member: its batches, its answers, and whether it can be relied on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from ..load import Load
from .batch import MeasuringBatch
from .engine import QUIET, Member
from .group_search import Answer, GroupSearch

PIPELINE = 2  # batches that a member has at a time: it never waits for a message, and little is lost if it dies
GRACE = 30.0  # seconds that the network may delay an answer


@dataclass(slots=True, eq=False)
class HandedBatch:
    """A batch that a member has and has not finished."""

    batch: MeasuringBatch
    search: GroupSearch | None  # None: a control
    repeats: int = 0  # of a control: the number of those before it that were not good
    load: Load = QUIET  # the heaviest during these
    answers: dict[int, float] = field(default_factory=dict)  # index -> measured seconds

    def unanswered(self) -> list[int]:
        """The indices that have no answer."""
        return [index for index in range(len(self.batch.configurations)) if index not in self.answers]

    def give_back(self) -> None:
        """Give what is not answered back to the search."""
        if self.search is not None:
            self.search.give_back(self.batch.purpose, [self.batch.configurations[index] for index in self.unanswered()])


class MemberState:
    """The state of a member."""

    def __init__(self, member: Member, now: float) -> None:
        self.member, self.name, self.group_key = member, member.name, member.group_key
        self.phase = MemberPhase.LEFT
        self.reason = ""
        self.handed: dict[int, HandedBatch] = {}  # by number, in the order of work
        self.block: list[Answer] = []  # answers since the last control, which the next one proves
        self.opened = now  # engine's seconds of the begin of the block
        self.is_closing = False  # whether the control after the block was handed out
        self.reference: float | None = None  # s, of its first controls
        self.reference_loaded = False  # whether the machine was busy then, so that nothing shows how busy
        self.distrusted = False  # whether a control was not good, whenever it was repeated
        self.slowed_at = -math.inf  # engine's seconds of a control that was too slow, if the last one was
        self.busy_since: float | None = None  # engine's seconds, since when a busy machine disturbs its controls
        self.pauses = 0  # since then
        self.reference_ratio: float | None = None  # its first controls to an earlier run's, if they differ
        self.consecutive_failures = 0  # times in a row that it was late or failed
        self.exclusions = 0  # times that it was excluded
        self.retry_at = math.inf  # engine's seconds, when a backoff or a pause is over
        self.excluded_at = -math.inf  # engine's seconds, when it was excluded the last time
        self.heard = now  # engine's seconds of the last message
        self.started = now  # engine's seconds, when it began the batch on which it works
        self.idle_since = now
        self.done = self.failures = 0
        self.best = math.inf
        self.finished, self.busy = 0, 0.0  # configurations of batches that it has finished, and the s that they took
        self.last: GroupSearch | None = None  # of its last batch: its worker has the operands

    @property
    def is_ready(self) -> bool:
        """Whether it can be given work."""
        return self.phase in (MemberPhase.MEASURING, MemberPhase.WAITING) and not self.is_closing \
            and len(self.handed) < PIPELINE

    @property
    def is_usable(self) -> bool:
        """Whether it measures, or may measure again without joining again."""
        excluded_for_good = self.phase is MemberPhase.EXCLUDED and self.retry_at == math.inf
        return self.phase is not MemberPhase.LEFT and not excluded_for_good

    def is_late(self, now: float) -> bool:
        """Whether it is silent for longer than its batch allows."""
        handed = next(iter(self.handed.values()), None)
        return handed is not None and \
            now - self.heard > handed.batch.silence(self.member.allowance, len(handed.answers)) + GRACE

    def hand(self, handed: HandedBatch, now: float) -> None:
        """Note a batch that is handed out."""
        if not self.handed:
            self.started = self.heard = now
            if not self.block:
                self.opened = now
        self.handed[handed.batch.number] = handed
        if handed.search is not None:
            self.last = handed.search
        if self.phase is MemberPhase.WAITING:
            self.phase = MemberPhase.MEASURING

    def finish(self, number: int, now: float) -> HandedBatch:
        """Note the end of a batch, and the time that it took."""
        handed = self.handed.pop(number)
        seconds = max(0.0, now - self.started)
        self.finished += len(handed.answers)
        self.busy += seconds
        self.started = self.idle_since = now
        if handed.search is not None:
            handed.search.spend(seconds, len(handed.answers))
        if not self.handed and self.phase is MemberPhase.MEASURING:
            self.phase = MemberPhase.WAITING
        return handed

    def take_answer(self, answer: Answer) -> None:
        """Add an answer of a trial or a final to the block and its search."""
        self.done += 1
        record = answer.record
        self.failures += math.isinf(record.measurement.seconds)
        self.best = min(self.best, record.measurement.seconds)
        answer.search.answer(answer.purpose, record.configuration, record.measurement)
        self.block.append(answer)

    def release(self, phase: MemberPhase, reason: str) -> list[GroupSearch]:
        """Give all batches and the block back to their searches, which are returned."""
        self.phase, self.reason, self.retry_at = phase, reason, math.inf
        searches = [handed.search for handed in self.handed.values() if handed.search is not None]
        for handed in self.handed.values():
            handed.give_back()
        for answer in self.block:
            answer.search.discard(answer.purpose, answer.record.configuration)
            searches.append(answer.search)
        self.handed.clear()
        self.block, self.is_closing = [], False
        return list(dict.fromkeys(searches))

    def progress(self) -> MemberProgress:
        """The state for the user."""
        rate = self.finished / self.busy if self.busy else 0.0
        return MemberProgress(self.name, self.member.device.name, self.phase, self.reason, rate, self.done,
                              self.failures, self.best)


class MemberPhase(StrEnum):
    """The state of a member, in the words of the progress view."""

    OPENING = "opening"  # its first controls
    MEASURING = "measuring"
    WAITING = "waiting"  # nothing to do
    BUSY = "waiting for quiet"  # other work on its machine disturbs its controls
    LATE = "late"  # it has not answered for longer than its batch may take
    LEFT = "left"
    EXCLUDED = "excluded"  # it failed repeatedly, or its controls changed


@dataclass(frozen=True, slots=True)
class MemberProgress:
    """The work of one member so far."""

    name: str
    device: str  # Device.name
    phase: MemberPhase
    reason: str  # why it is late, gone, excluded or waits for quiet
    rate: float  # configurations/s while it measured
    done: int  # configurations that it measured; those of discarded blocks included
    failures: int  # of these, not correct
    best: float  # s, the least time that it measured; infinite if there is none


@dataclass(frozen=True, slots=True)
class FleetProgress:
    """The state of a run. `total` is an estimate until every problem was opened."""

    members: tuple[MemberProgress, ...]
    done: int  # trials of all groups
    total: int  # of all groups, by budget and spaces
    seconds: float  # since the begin
    rate: float  # trials/s of all members that are measuring
    note: str = ""  # what the run waits for, for example a full disk

    @property
    def seconds_left(self) -> float:
        """The seconds until the end at the present rate; infinite if nothing is measured."""
        return max(0, self.total - self.done) / self.rate if self.rate > 0 else math.inf

    def to_json(self) -> dict[str, object]:
        """A JSON object; an infinite time is null."""
        members = [{**asdict(member), "best": None if math.isinf(member.best) else member.best}
                   for member in self.members]
        left = self.seconds_left
        return {"members": members, "done": self.done, "total": self.total, "seconds": self.seconds,
                "rate": self.rate, "seconds_left": None if math.isinf(left) else left, "note": self.note}
