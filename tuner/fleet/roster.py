"""Roster: tracks every member of a fleet: ready, late, or excluded because it failed or its control runs changed."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import replace

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..load import Load
from ..measuring.timing import Options
from . import control
from .batch import MeasuringBatch, Purpose
from .engine import QUIET, Engine, GroupKey, Member
from .group import Group
from .group_search import Answer, GroupSearch
from .member_state import HandedBatch, MemberPhase, MemberState
from .reference_memory import ReferenceMemory

BACKOFF = 30.0  # seconds before an excluded member is tried again; twice as long each further time
LONGEST_BACKOFF = 300.0
RETRIES = 4  # times that an excluded member is tried again
MOST_FAILURES = 3  # times in a row that a member may be late or fail before it is excluded
TRUSTED_AGAIN = 3600.0  # seconds of good controls after which the exclusions of a member are forgotten
PAUSE = 10.0  # seconds before a member on a busy machine is tried again; each further pause is twice as long
LONGEST_PAUSE = 60.0
BUSY_SECONDS = 600.0  # to wait for quiet; afterwards records are written, marked as measured under load


class Roster:
    """Knows every member by name. It hands batches to the engine and checks controls; what to measure is not its task.
    """

    def __init__(self, engine: Engine, measuring: Options, memory: ReferenceMemory,
                 make_group: Callable[[Member], Group]) -> None:
        self.engine, self.measuring, self.memory = engine, measuring, memory
        self.members: dict[str, MemberState] = {}
        self.groups: dict[GroupKey, Group] = {}
        self._make_group = make_group
        self._numbers = itertools.count(1)

    def group_of(self, state: MemberState) -> Group:
        """The group of a member."""
        return self.groups[state.group_key]

    def join(self, member: Member) -> None:
        """Add a member, or one that comes back: it opens with controls. One that is excluded stays so."""
        state = self.members.get(member.name)
        if state is not None and state.group_key != member.group_key:
            self.release(state, MemberPhase.LEFT, "its device has changed")
            del self.group_of(state).members[member.name]
            state = None
        if member.group_key not in self.groups:
            self.groups[member.group_key] = self._make_group(member)
        if state is None:
            state = self.members[member.name] = MemberState(member, self.engine.now())
            self.group_of(state).members[member.name] = state
        elif state.phase is MemberPhase.EXCLUDED:
            return
        elif state.phase is not MemberPhase.LEFT:
            self.release(state, MemberPhase.LEFT, "it began anew")
        state.member = member
        self.open(state)

    def open(self, state: MemberState) -> None:
        """Let a member begin, or begin again, with its first controls."""
        state.phase, state.reason, state.retry_at = MemberPhase.OPENING, "", math.inf
        if self.group_of(state).control is None:  # no kernel solves any of the problems, as the group will find
            self._go_on(state, False)
        else:
            self.hand_control(state)

    def hand_control(self, state: MemberState, repeats: int = 0, load: Load = QUIET) -> None:
        """Hand a control to a member: the first ones if it opens, else the one that closes its block."""
        probe = self.group_of(state).control
        assert probe is not None
        state.is_closing = state.phase is not MemberPhase.OPENING
        configurations = (probe.configuration,) * (1 if state.is_closing else control.OPENING)
        handed = self.hand(state, Purpose.CONTROL, probe.problem, configurations, None)
        handed.repeats, handed.load = repeats, load

    def hand(self, state: MemberState, purpose: Purpose, problem: Problem, configurations: tuple[Configuration, ...],
             search: GroupSearch | None) -> HandedBatch:
        """Hand a batch to a member."""
        best, rounds, measuring = math.inf, 0, self.measuring
        if search is None:
            measuring = replace(measuring, samples=max(measuring.samples, control.SAMPLES))
        elif purpose is Purpose.COMPARE:
            rounds = search.final_rounds[0]
        else:
            best = search.search.best
        batch = MeasuringBatch(next(self._numbers), purpose, problem, configurations, measuring, best, rounds)
        handed = HandedBatch(batch, search)
        state.hand(handed, self.engine.now())
        self.engine.submit(state.name, batch)
        return handed

    def release(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Give a member up for now: others measure again whatever it measured that is not in the journal."""
        for number in state.handed:
            self.engine.cancel(state.name, number)
        group = self.group_of(state)
        group.free.pop(state.name, None)
        for search in state.release(phase, reason):
            group.advance(search)

    def exclude(self, state: MemberState, reason: str) -> None:
        """Exclude a member until its backoff is over, or for good after the last of them."""
        state.exclusions += 1
        state.consecutive_failures = 0
        self.release(state, MemberPhase.EXCLUDED, reason)
        backoff = min(LONGEST_BACKOFF, BACKOFF * 2.0 ** min(state.exclusions - 1, 60))
        state.excluded_at = self.engine.now()
        state.retry_at = state.excluded_at + backoff if state.exclusions <= RETRIES else math.inf

    def count_failure(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Count a failure that may be the member's own fault; exclude it after MOST_FAILURES.

        A member that is late is released at once.
        """
        state.consecutive_failures += 1
        if state.consecutive_failures >= MOST_FAILURES:
            self.exclude(state, reason)
        elif phase is MemberPhase.LATE:
            self.release(state, MemberPhase.LATE, reason)

    def check_control(self, state: MemberState, handed: HandedBatch, error: str, load: Load) -> list[Answer]:
        """Check a control that is finished; return the answers that it has proved, which may be written.

        `load` is that of the member's host. It explains a control that is too slow, not one that is too fast or failed.
        """
        seconds = math.inf if error or handed.unanswered() else statistics.median_high(handed.answers.values())
        load = max(handed.load, load, key=lambda load: load.others + load.stolen)
        times = {"before": state.reference, control.EARLIER: self._earlier(state),
                 "on members like it": self.group_of(state).reference_median()}
        known = {origin: time for origin, time in times.items() if time is not None}
        reason = control.fault(seconds, known)
        if not reason and load.heavy and not known and control.differs(
                min(handed.answers.values()), max(handed.answers.values())):
            reason = "its first controls differ"
        if not reason:
            return self._accept(state, seconds, load.heavy and not known, load.heavy)
        if handed.repeats < control.REPEATS:
            self.hand_control(state, handed.repeats + 1, load)
            return []
        return self._reject(state, seconds, known, f"{reason} ({error})" if error else reason, load)

    def _reject(self, state: MemberState, seconds: float, known: dict[str, float], reason: str,
                load: Load) -> list[Answer]:
        """Decide what happens to a member whose control is still not good after all repeats.

        Return the answers that count nevertheless.
        """
        is_slower = control.is_slower(seconds, known)
        if state.reference_loaded and not is_slower:  # it was taken on a machine that is quieter now
            state.reference = None
            self.release(state, MemberPhase.BUSY, "the machine is less busy; its first controls are repeated")
            self.open(state)
            return []
        if is_slower:
            state.slowed_at = self.engine.now()
            if load.heavy:
                return self._wait_for_quiet(state, f"the machine is busy ({load}); {reason}", True)
            if self._slowed_together(state):
                return self._wait_for_quiet(state, f"its machine has become slower; {reason}", False)
        earlier = known.pop(control.EARLIER, None)
        if earlier is not None and math.isfinite(seconds) and control.differs(seconds, earlier):
            state.reference_ratio = seconds / earlier
            if self._changed_together(state) and not control.fault(seconds, known):
                return self._accept(state, seconds, False, load.heavy)
            reason += f"; if its machine was changed, remove {self.memory.path}"
        state.distrusted = True
        self.exclude(state, reason)
        return []

    def _earlier(self, state: MemberState) -> float | None:
        """The reference of an earlier run in seconds, for a member that has none in this one."""
        probe = self.group_of(state).control
        if state.reference is not None or probe is None or self._changed_together(state):
            return None
        return self.memory.seconds(state.member, probe)

    def _changed_together(self, state: MemberState) -> bool:
        """Whether most of a group, and three at least, differ alike from an earlier run: it was changed on purpose."""
        if state.reference_ratio is None:
            return False
        states = [other for other in self.group_of(state).members.values()
                  if other.reference_ratio is not None or other.reference is not None]
        alike = [other for other in states if other.reference_ratio
                 and not control.differs(other.reference_ratio, state.reference_ratio)]
        return len(alike) >= control.ALIKE and 2 * len(alike) > len(states)

    def _accept(self, state: MemberState, seconds: float, unproved: bool, heavy: bool) -> list[Answer]:
        """Accept a good control; return the answers that it proves.

        `unproved`: it was compared with nothing, and the machine is busy.
        """
        loaded = state.reference_loaded
        if state.reference is None:
            state.reference, state.reference_loaded, state.distrusted = seconds, unproved, False
            loaded = state.is_closing  # a block, which was opened without a reference
        elif loaded and not heavy:
            state.reference_loaded = loaded = False
        state.slowed_at, state.busy_since = -math.inf, None
        state.pauses = 0
        probe = self.group_of(state).control
        if state.is_closing and not state.reference_loaded and probe is not None:
            self.memory.confirm(state.member, probe, state.reference)
        if state.is_closing and self.engine.now() - state.excluded_at > TRUSTED_AGAIN:
            state.exclusions = 0
        return self._go_on(state, loaded)

    def _go_on(self, state: MemberState, loaded: bool) -> list[Answer]:
        """Let a member measure; return the answers of its block, which count, as measured under load if `loaded`."""
        answers, state.block, state.is_closing = state.block, [], False
        state.phase = MemberPhase.MEASURING if state.handed else MemberPhase.WAITING
        state.idle_since = self.engine.now()
        self.group_of(state).free[state.name] = state
        if loaded:
            return [replace(answer, record=replace(answer.record, loaded=True)) for answer in answers]
        return answers

    def _wait_for_quiet(self, state: MemberState, reason: str, reported: bool) -> list[Answer]:
        """Let a member wait until its machine is quiet. Its block is measured again.

        After BUSY_SECONDS, a member whose host has reported the load (`reported`) goes on, and its records are marked;
        any other one is excluded.
        """
        now = self.engine.now()
        state.busy_since = now if state.busy_since is None else state.busy_since
        if now - state.busy_since <= BUSY_SECONDS:
            self.release(state, MemberPhase.BUSY, reason)
            state.retry_at = now + min(LONGEST_PAUSE, PAUSE * 2.0 ** min(state.pauses, 60))
            state.pauses += 1
        elif reported:
            return self._go_on(state, True)
        else:
            state.distrusted = True
            self.exclude(state, reason)
        return []

    def _slowed_together(self, state: MemberState) -> bool:
        """Whether other members of its host have slowed down in these minutes: then the host is slow, not the member.

        One of them that was excluded for it waits for quiet instead.
        """
        now, host = self.engine.now(), state.member.host
        since = now - 2 * control.BLOCK_SECONDS
        others = [other for other in self.members.values() if other is not state and host
                  and other.member.host == host and other.slowed_at >= since]
        for other in others:
            other.busy_since = other.slowed_at if other.busy_since is None else other.busy_since
            if other.phase is MemberPhase.EXCLUDED and other.slowed_at <= other.excluded_at \
                    and now - other.busy_since <= BUSY_SECONDS:
                other.phase, other.distrusted = MemberPhase.BUSY, False
                other.exclusions -= 1
        return bool(others)
