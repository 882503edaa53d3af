"""GroupSearch: one problem's search, whose configurations many members measure at a time.

Proposals are asked for in rounds. A round's answers are passed to the strategy in the order of its proposals, when all
have come: what is proposed next then depends neither on which member measured what nor on which answers were late. A
strategy that received an answer which turns out to be wrong is built again, and receives the good answers again.

Answers stay with their member until a control proves them, then in a queue on their way to the journal. Many may be
proved at once, and members should not wait for the driver meanwhile. Therefore at most AT_ONCE records are written at a
time, all of them or none.

A write is repeated if the journal cannot be written now (a full disk, a lock of another process). A journal that was
deleted, replaced or damaged rescues its records and raises FormatError.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record
from seqtune.errors import MisuseError, SeqtuneError, one_line
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.task import Task

from ..run.finals import are_noisy
from ..run.plan import Budget, TuningOptions
from ..run.result import TuningResult
from ..run.search import Search
from .batch import Purpose
from .engine import group_key


class GroupSearch:
    """A search of one task by the members of a group."""

    def __init__(self, task: Task, journal: Journal, budget: Budget, options: TuningOptions) -> None:
        self.search, self.budget, self.options = Search(task, journal, options, budget.trials), budget, options
        self.group_key = group_key(task.device)
        self.strategy = self.search.strategy()
        self.waiting: deque[Configuration] = deque()  # configurations to be handed out
        self.unwritten = 0  # answers that are not in the journal yet
        self.pace = 0.0  # s for a configuration in the last batches; 0: not known
        self.refused: dict[str, str] = {}  # member -> why it could not measure the problem
        self.searched = False  # whether the trials are over
        self.is_stopped = False  # nothing more is handed out
        self._is_misled = False  # the strategy has received a wrong answer
        self._round: dict[Configuration, Measurement | None] = {}  # proposals that were not passed on yet -> answer
        self._missing = 0  # answers of the round
        self._handed_out: set[Configuration] = set()  # configurations that members have and have not answered
        self._spent = 0.0  # s that members measured for this search
        self._finals: dict[Configuration, Measurement | None] = {}  # finalists that were handed out -> answer
        self.final_rounds = deque((options.finals.rounds, options.finals.more_rounds))  # of the finals that are due
        self._result: TuningResult | None = None

    @property
    def is_offering(self) -> bool:
        """Whether there is something to hand out."""
        return bool(self.waiting) or (self.searched and self.result() is None and not self.unwritten
                                      and not self._finals)

    @property
    def _is_spent(self) -> bool:
        """Whether the budget's seconds are over."""
        return self.budget.seconds is not None and self._spent >= self.budget.seconds

    def advance(self, count: int) -> None:
        """Pass on a round whose answers are complete, and ask for the next one of up to `count` proposals."""
        if self._is_misled and not self.is_stopped:
            self._begin_again()
        while not (self._missing or self.searched or self.is_stopped):
            for configuration, measurement in self._round.items():
                assert measurement is not None
                self.search.accept(self.strategy, configuration, measurement)
                self.search.report(configuration, measurement)
            self._round = {}
            if self.search.done >= self.search.limit or self._is_spent:
                self.search.ended = True
            else:
                proposals = self.search.propose(self.strategy, min(count, self.search.limit - self.search.done))
                self._round, self._missing = dict.fromkeys(proposals), len(proposals)
                self.waiting.extend(proposal for proposal in proposals if proposal not in self._handed_out)
            if self.search.ended:
                self.searched = not self._handed_out
                return

    def _begin_again(self) -> None:
        """Build the strategy again, without the wrong answers."""
        search = self.search
        search.trials.update({proposal: answer for proposal, answer in self._round.items() if answer is not None})
        search.best = min(search.times, default=math.inf)
        self._round, self._missing, self.searched, search.ended = {}, 0, False, False
        self.waiting.clear()
        self.strategy, self._is_misled = search.strategy(), False

    def take(self, count: int) -> tuple[Purpose, tuple[Configuration, ...]]:
        """Hand out work: up to `count` configurations of the round, or all finalists."""
        if self.waiting:
            taken = tuple(self.waiting.popleft() for _ in range(min(count, len(self.waiting))))
            self._handed_out.update(taken)
            return Purpose.MEASURE, taken
        self._finals = dict.fromkeys(self.search.finalists())
        return Purpose.COMPARE, tuple(self._finals)

    def spend(self, seconds: float, count: int) -> None:
        """Add the seconds that a member took for `count` configurations."""
        self._spent += seconds
        if count:
            self.pace = seconds / count if not self.pace else (self.pace + seconds / count) / 2
        if self._is_spent:
            while self.waiting:
                del self._round[self.waiting.popleft()]
                self._missing -= 1

    def answer(self, purpose: Purpose, configuration: Configuration, measurement: Measurement) -> None:
        """Take an answer to something that was handed out."""
        self.unwritten += 1
        if purpose is Purpose.COMPARE:
            self._finals[configuration] = measurement
            return
        self._handed_out.discard(configuration)
        if configuration in self._round:
            self._round[configuration] = measurement
            self._missing -= 1
        else:  # proposed by a strategy that has been built again since, because of a wrong answer
            self.search.trials[configuration] = measurement

    def give_back(self, purpose: Purpose, configurations: Iterable[Configuration]) -> None:
        """Take back what was handed out and is not answered."""
        if purpose is Purpose.COMPARE:
            self._finals = {}
            return
        for configuration in configurations:
            self._handed_out.discard(configuration)
            if configuration in self._round:
                self.waiting.append(configuration)

    def discard(self, purpose: Purpose, configuration: Configuration) -> None:
        """Forget an answer that cannot be trusted. `advance` lets it be measured again."""
        self.unwritten -= 1
        if purpose is Purpose.COMPARE:
            self._finals = {}
        elif configuration in self._round:
            self._round[configuration] = None
            self._missing += 1
            self.waiting.append(configuration)
        else:
            self._is_misled |= self.search.trials.pop(configuration, None) is not None

    def stop(self) -> None:
        """Hand out nothing more. Answers to what was handed out still count."""
        self.is_stopped = self.search.ended = True
        self._round, self._missing = {}, 0
        self.waiting.clear()

    def result(self) -> TuningResult | None:
        """The result, once trials and finals are in the journal; None before."""
        if self._result is not None or not self.searched or self.unwritten:
            return self._result
        measured = self.search.unmeasured_finals() if not self._finals else {
            finalist: answer for finalist, answer in self._finals.items() if answer is not None}
        if measured is None or len(measured) < len(self._finals):
            return None
        if self._finals and len(self.final_rounds) > 1 and are_noisy(measured, self.options.finals):
            self.final_rounds.popleft()
            self._finals = {}  # they are measured again, with more rounds
        elif self.search.accept_finals(measured) or not self._finals:
            self._result = self.search.result_of(measured)
        else:
            self._finals = {}  # the default failed: they are measured again, with its stand-in
        return self._result


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
