"""MemberState: what the driver knows of a member: its batches, its blocks, and whether it can be relied on."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..load import Load
from .answers import Answer, AnswerBlock
from .batch import MeasuringBatch, Purpose
from .control import median
from .engine import QUIET
from .group_search import GroupSearch
from .member import Member, MemberPhase, MemberProgress

PIPELINE = 2  # batches that a member has at a time: it never waits for a message, and little is lost if it dies


@dataclass(slots=True, eq=False)
class HandedBatch:
    """A batch that a member has and has not finished."""

    batch: MeasuringBatch
    block: AnswerBlock | None  # to which its answers go; the block that it closes, if it is a control
    search: GroupSearch | None  # None: a control
    repeats: int = 0  # of a control: the number of those before it that were not good
    load: Load = QUIET  # the heaviest during these
    answered: set[int] = field(default_factory=set)  # indices
    seconds: list[float] = field(default_factory=list)  # of a control's answers

    def unanswered(self) -> list[int]:
        """The indices that have no answer."""
        return [index for index in range(len(self.batch.configurations)) if index not in self.answered]

    def give_back(self) -> None:
        """Give what is not answered back to the search."""
        if self.search is not None:
            indices = self.unanswered()
            if indices or self.batch.purpose is Purpose.COMPARE:
                self.search.give_back(self.batch.purpose, [self.batch.configurations[index] for index in indices])


class MemberState:
    """The state of a member."""

    def __init__(self, member: Member, now: float) -> None:
        self.member = member
        self.group_key = member.group_key
        self.phase = MemberPhase.LEFT
        self.reason = ""
        self.handed: dict[int, HandedBatch] = {}  # by number, in the order of work
        self.blocks: deque[AnswerBlock] = deque()  # the last one is open
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
    def name(self) -> str:
        """The member's name."""
        return self.member.name

    @property
    def is_ready(self) -> bool:
        """Whether it can be given work."""
        return self.phase in (MemberPhase.MEASURING, MemberPhase.WAITING) and len(self.handed) < PIPELINE

    @property
    def is_usable(self) -> bool:
        """Whether it measures, or may measure again without joining again."""
        excluded_for_good = self.phase is MemberPhase.EXCLUDED and self.retry_at == math.inf
        return self.phase is not MemberPhase.LEFT and not excluded_for_good

    def hand(self, handed: HandedBatch, now: float) -> None:
        """Note a batch that is handed out."""
        if not self.handed:
            self.started = self.heard = now
        self.handed[handed.batch.number] = handed
        if handed.block is not None and handed.search is not None:
            handed.block.batches += 1
            self.last = handed.search
        if self.phase is MemberPhase.WAITING:
            self.phase = MemberPhase.MEASURING

    def finish(self, number: int, now: float) -> HandedBatch:
        """Note the end of a batch, and the time that it took."""
        handed = self.handed.pop(number)
        seconds = max(0.0, now - self.started)
        self.finished += len(handed.answered)
        self.busy += seconds
        self.started = self.idle_since = now
        if handed.search is not None:
            handed.search.spend(seconds, len(handed.answered))
            if handed.block is not None:
                handed.block.batches -= 1
        if not self.handed and self.phase is MemberPhase.MEASURING:
            self.phase = MemberPhase.WAITING
        return handed

    def take_answer(self, handed: HandedBatch, answer: Answer, index: int) -> None:
        """Add an answer of a trial or a final to its block and its search."""
        measurement = answer.measurement
        handed.answered.add(index)
        self.done += 1
        self.failures += math.isinf(measurement.seconds)
        self.best = min(self.best, measurement.seconds)
        answer.search.unwritten += 1
        answer.search.answer(answer.purpose, answer.configuration, measurement)
        assert handed.block is not None
        handed.block.answers.append(answer)

    def is_late(self, now: float, grace: float) -> bool:
        """Whether it is silent for longer than its batch allows."""
        for handed in self.handed.values():
            allowed = handed.batch.silence(self.member.allowance, len(handed.answered)) + grace
            return now - self.heard > allowed
        return False

    def release(self, phase: MemberPhase, reason: str) -> list[int]:
        """Give all batches and blocks back to the searches; return the numbers of the batches."""
        self.phase, self.reason = phase, reason
        numbers = list(self.handed)
        for handed in self.handed.values():
            handed.give_back()
        self.handed.clear()
        for block in self.blocks:
            block.discard()
        self.blocks.clear()
        return numbers

    def open_block(self, now: float) -> AnswerBlock:
        """The block to which the next batch belongs."""
        if not self.blocks or self.blocks[-1].closing:
            self.blocks.append(AnswerBlock(now))
        block = self.blocks[-1]
        if not block.answers and not block.batches:
            block.opened = now
        return block

    def control_seconds(self, handed: HandedBatch, error: str) -> float:
        """The time of a control that is finished; infinite if it failed."""
        return math.inf if error or handed.unanswered() else median(handed.seconds)

    def open_searches(self) -> Iterator[GroupSearch]:
        """The searches that wait for a control of this member."""
        return (answer.search for block in self.blocks for answer in block.answers)

    def progress(self) -> MemberProgress:
        """The state for the user."""
        rate = self.finished / self.busy if self.busy else 0.0
        return MemberProgress(self.name, self.member.device.name, self.phase, self.reason, rate, self.done,
                              self.failures, self.best)
