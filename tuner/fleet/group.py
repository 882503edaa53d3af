"""Group: the members that are alike, and the searches whose trials they share."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator

from seqtune.errors import KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..run.plan import Plan, Skipped
from ..run.result import TuningResult
from .control import ALIKE, Probe
from .group_search import GroupSearch
from .member_state import PIPELINE, MemberPhase, MemberState

BATCH_SECONDS = 5.0  # of work in a batch: much longer than a message takes, short enough to share a search
BATCH_MOST = 64  # configurations of a batch
FIRST_SHARE = 0.25  # of a batch's seconds, for a problem of which only the times of other problems are known
JOIN_SECONDS = 300.0  # to wait for a member to join, or to join again, before a group is given up


class Group:
    """Alike members, their control, and their problems, each opened when a member has nothing to do."""

    def __init__(self, device: Device, plan: Plan, control: Probe | None,
                 open_search: Callable[[Problem, Device], GroupSearch]) -> None:
        self.device, self.plan, self.control = device, plan, control
        self.members: dict[str, MemberState] = {}
        self.free: dict[str, MemberState] = {}  # members that may be given work
        self.unopened = deque(plan.problems)
        self.searches: dict[Problem, GroupSearch] = {}  # searches without a result yet
        self.skipped: list[Skipped] = []
        self.loss = ""  # why no member is left, where problems were left out for it
        self.closed = 0  # trials of the searches that have a result
        self.pace = 0.0  # s for a configuration, of any problem; 0: not known
        self.empty_since: float | None = None  # engine's seconds, since when no member is usable
        self._open_search = open_search
        self._offering: dict[GroupSearch, None] = {}  # searches that may have something to hand out, the oldest first
        self._ready: dict[GroupSearch, None] = {}  # searches that may have a result now

    @property
    def is_done(self) -> bool:
        """Whether every problem has a result or was skipped."""
        return not self.unopened and not self.searches

    @property
    def usable(self) -> list[str]:
        """The members that measure, or may measure again without joining again."""
        return [state.name for state in self.members.values() if state.is_usable]

    def reference_median(self) -> float | None:
        """The median of the references, in seconds; None if they are too few.

        Members that are gone count, members whose control was not good do not.
        """
        references = [state.reference for state in self.members.values()
                      if state.reference is not None and not (state.distrusted or state.reference_loaded)]
        return statistics.median(references) if len(references) >= ALIKE else None

    def round_size(self) -> int:
        """The number of proposals of a round: the options', or more where few problems must feed many members."""
        feeding = math.ceil(2 * PIPELINE * len(self.members) / max(1, len(self.searches) + len(self.unopened)))
        return max(self.plan.options.batch, feeding)

    @property
    def pipeline(self) -> int:
        """The number of batches that a member may have: one where searches are scarce, so that none is hoarded."""
        return PIPELINE if self.unopened or len(self.searches) >= PIPELINE * len(self.members) else 1

    @property
    def has_work(self) -> bool:
        """Whether something may be handed out."""
        return bool(self.unopened or self._offering)

    def advance(self, search: GroupSearch) -> None:
        """Let a search pass on a complete round and propose the next one, and offer what it has."""
        search.advance(self.round_size())
        self.offer(search)

    def offer(self, search: GroupSearch) -> None:
        """Offer what a search has to hand out, and note that it may have a result."""
        if search.searched:
            self._ready[search] = None
        if search.is_offering:
            self._offering[search] = None

    def collect(self) -> Iterator[TuningResult]:
        """Yield the results that have become known since the last call."""
        ready, self._ready = self._ready, {}
        for search in ready:
            result = search.result()
            if result is None and search.is_offering:  # its finals are due
                self._offering[search] = None
            elif result is not None and self.searches.pop(search.search.task.problem, None) is not None:
                self.closed += result.done
                yield result

    def next_search(self, state: MemberState) -> GroupSearch | None:
        """The search of which a member should get work: that of its last batch, else the oldest; None if none has any.
        """
        last = state.last
        if last is not None and last.waiting and state.name not in last.refused:
            return last
        for search in list(self._offering):
            if not search.is_offering:
                del self._offering[search]
            elif state.name not in search.refused:
                return search
        while self.unopened:
            opened = self._open(self.unopened.popleft())
            if opened is not None and opened.is_offering:
                return opened
        return None

    def _open(self, problem: Problem) -> GroupSearch | None:
        try:
            search = self._open_search(problem, self.device)
        except KernelError as error:
            self.skipped.append(Skipped(problem, self.device, str(error)))
            return None
        self.searches[problem] = search
        self.advance(search)
        return search

    def share(self, search: GroupSearch) -> int:
        """The number of configurations for the next batch of a search: about BATCH_SECONDS, or a fair share."""
        count = 1.0
        if search.pace or self.pace:
            count = BATCH_SECONDS / search.pace if search.pace else FIRST_SHARE * BATCH_SECONDS / self.pace
        if not self.unopened:  # divide a round where there are more members than searches
            count = min(count, math.ceil(self.round_size() * min(1, len(self.searches) / max(1, len(self.members)))))
        return max(1, min(BATCH_MOST, int(count)))

    def learn_pace(self, search: GroupSearch) -> None:
        """Take over the pace of a search after a batch."""
        if search.pace:
            self.pace = search.pace if not self.pace else (7 * self.pace + search.pace) / 8

    def give_up_refused(self) -> None:
        """Leave out the problems that none of the members can measure."""
        usable = self.usable
        for problem, search in list(self.searches.items()):
            if search.refused and search.is_offering and usable and search.refused.keys() >= set(usable):
                self._give_up(problem, next(iter(search.refused.values())))

    def give_up_without_members(self, now: float) -> None:
        """Leave all problems out if no member has been usable for JOIN_SECONDS, or if none can return."""
        if self.is_done or self.usable:
            self.empty_since = None
            return
        self.empty_since = now if self.empty_since is None else self.empty_since
        final = all(state.phase is MemberPhase.EXCLUDED for state in self.members.values())
        if final or now - self.empty_since > JOIN_SECONDS:
            self.loss = "no member is left: " + "; ".join(
                f"{state.name}: {state.reason}" for state in self.members.values())
            for problem in list(self.searches):
                self._give_up(problem, self.loss)
            self.skipped.extend(Skipped(problem, self.device, self.loss) for problem in self.unopened)
            self.unopened.clear()

    def _give_up(self, problem: Problem, reason: str) -> None:
        """Leave a problem out."""
        search = self.searches.pop(problem)
        self.closed += search.search.done
        search.stop()
        self.skipped.append(Skipped(problem, self.device, reason))

    def trials(self) -> tuple[int, int]:
        """The number of trials that are done, and an estimate of the number of all."""
        limits = [search.search.limit for search in self.searches.values()]
        done = self.closed + sum(search.search.done for search in self.searches.values())
        mean = sum(limits) / len(limits) if limits else 0
        return done, max(done, int(self.closed + sum(limits) + mean * len(self.unopened)))
