"""Roster: tracks every member of a fleet: ready, late, or excluded because it failed or its control runs changed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..load import Load
from ..measuring.timing import Options
from . import control
from .answers import AnswerBlock
from .batch import MeasuringBatch, Purpose
from .engine import QUIET, Engine
from .group import Group
from .group_search import GroupSearch
from .member import GroupKey, Member, MemberPhase
from .member_state import HandedBatch, MemberState
from .options import FleetOptions
from .reference_memory import ReferenceMemory


class Roster:
    """Knows every member by name. It hands batches to the engine and checks controls; what to measure is not its task.
    """

    def __init__(self, engine: Engine, options: FleetOptions, measuring: Options, memory: ReferenceMemory,
                 make_group: Callable[[Member], Group]) -> None:
        self.engine, self.options, self.measuring, self.memory = engine, options, measuring, memory
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
            self._let_measure(state)
        else:
            self.hand_control(state, None)

    def hand_control(self, state: MemberState, block: AnswerBlock | None, repeats: int = 0,
                     load: Load = QUIET) -> None:
        """Hand a control to a member: the first ones if `block` is None, else the one that closes the block."""
        probe = self.group_of(state).control
        assert probe is not None
        if block is not None:
            block.closing = True
        configurations = (probe.configuration,) * (control.OPENING if block is None else 1)
        handed = self.hand(state, Purpose.CONTROL, probe.problem, configurations, None, block)
        handed.repeats, handed.load = repeats, load

    def hand(self, state: MemberState, purpose: Purpose, problem: Problem, configurations: tuple[Configuration, ...],
             search: GroupSearch | None, block: AnswerBlock | None) -> HandedBatch:
        """Hand a batch to a member."""
        best, rounds = (search.best, 0) if search is not None else (math.inf, 0)
        if search is not None and purpose is Purpose.COMPARE:
            best, rounds = math.inf, search.rounds
        measuring = self.measuring
        if search is None:
            measuring = replace(measuring, samples=max(measuring.samples, control.SAMPLES))
        batch = MeasuringBatch(next(self._numbers), purpose, problem, configurations, measuring, best, rounds)
        handed = HandedBatch(batch, block, search)
        state.hand(handed, self.engine.now())
        self.engine.submit(state.name, batch)
        return handed

    def release(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Give a member up for now: others measure again whatever it measured that is not in the journal."""
        searches = {id(search): search for search in state.open_searches()}
        searches.update({id(handed.search): handed.search for handed in state.handed.values() if handed.search})
        for number in state.release(phase, reason):
            self.engine.cancel(state.name, number)
        group = self.group_of(state)
        group.forget_median()
        group.free.pop(state.name, None)
        for search in searches.values():
            group.advance(search)

    def exclude(self, state: MemberState, reason: str) -> None:
        """Exclude a member until its backoff is over, or for good after `retries` of them."""
        state.exclusions += 1
        state.consecutive_failures = 0
        self.release(state, MemberPhase.EXCLUDED, reason)
        backoff = min(self.options.longest_backoff, self.options.backoff * 2.0 ** min(state.exclusions - 1, 60))
        state.excluded_at = self.engine.now()
        state.retry_at = state.excluded_at + backoff if state.exclusions <= self.options.retries else math.inf

    def count_failure(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Count a failure that may be the member's own fault; exclude it after `consecutive_failures`.

        A member that is late is released at once.
        """
        state.consecutive_failures += 1
        if state.consecutive_failures >= self.options.consecutive_failures:
            self.exclude(state, reason)
        elif phase is MemberPhase.LATE:
            self.release(state, MemberPhase.LATE, reason)

    def check_control(self, state: MemberState, handed: HandedBatch, error: str, load: Load) -> AnswerBlock | None:
        """Check a control that is finished; return the block that it has proved, which may be written.

        `load` is that of the member's host. It explains a control that is too slow, not one that is too fast or failed.
        """
        seconds = state.control_seconds(handed, error)
        load = max(handed.load, load, key=lambda load: load.others + load.stolen)
        heavy = load.heavy
        known = control.KnownTimes(state.reference, self._earlier(state), self.group_of(state).reference_median())
        reason = known.fault(seconds)
        if not reason and heavy and known.is_empty and control.is_unsteady(handed.seconds):
            reason = "its first controls differ"
        if not reason:
            return self._accept(state, handed.block, seconds, heavy and known.is_empty, heavy)
        if handed.repeats < control.REPEATS:
            self.hand_control(state, handed.block, handed.repeats + 1, load)
            return None
        return self._reject(state, handed.block, seconds, known, f"{reason} ({error})" if error else reason, load)

    def _reject(self, state: MemberState, block: AnswerBlock | None, seconds: float, known: control.KnownTimes,
                reason: str, load: Load) -> AnswerBlock | None:
        """Decide what happens to a member whose control is still not good after all repeats.

        Return the block if it counts nevertheless.
        """
        heavy = load.heavy
        if state.reference_loaded and not known.is_slower(seconds):  # it was taken on a machine that is quieter now
            state.reference = None
            self.release(state, MemberPhase.BUSY, "the machine is less busy; its first controls are repeated")
            self.open(state)
            return None
        if known.is_slower(seconds):
            state.slowed_at = self.engine.now()
            if heavy:
                return self._wait_for_quiet(state, block, f"the machine is busy ({load}); {reason}", True)
            if self._slowed_together(state):
                return self._wait_for_quiet(state, block, f"its machine has become slower; {reason}", False)
        if known.earlier is not None and math.isfinite(seconds) and control.differs(seconds, known.earlier):
            state.reference_ratio = seconds / known.earlier
            if self._changed_together(state) and not replace(known, earlier=None).fault(seconds):
                return self._accept(state, block, seconds, False, heavy)
            reason += f"; if its machine was changed, remove {self.memory.path}"
        state.distrusted = True
        self.exclude(state, reason)
        return None

    def _earlier(self, state: MemberState) -> float | None:
        """The reference of an earlier run in seconds, for a member that has none in this one."""
        probe = self.group_of(state).control
        if state.reference is not None or probe is None:
            return None
        if state.reference_ratio is not None and self._changed_together(state):
            return None
        return self.memory.seconds(state.member, probe)

    def _changed_together(self, state: MemberState) -> bool:
        """Whether most of a group, and three at least, differ alike from an earlier run: it was changed on purpose."""
        states = [other for other in self.group_of(state).members.values()
                  if other.reference_ratio is not None or other.reference is not None]
        alike = [other for other in states if other.reference_ratio and state.reference_ratio
                 and not control.differs(other.reference_ratio, state.reference_ratio)]
        return len(alike) >= control.ALIKE and 2 * len(alike) > len(states)

    def _accept(self, state: MemberState, block: AnswerBlock | None, seconds: float, unproved: bool,
                heavy: bool) -> AnswerBlock | None:
        """Accept a good control; return the block that it closes.

        `unproved`: it was compared with nothing, and the machine is busy.
        """
        now, loaded = self.engine.now(), state.reference_loaded
        if state.reference is None:
            state.reference, state.reference_loaded, state.distrusted = seconds, unproved, False
            loaded = block is not None  # which was opened without a reference
            self.group_of(state).forget_median()
        elif loaded and not heavy:
            state.reference_loaded = loaded = False
            self.group_of(state).forget_median()
        state.slowed_at, state.busy_since = -math.inf, None
        state.pauses = 0
        probe = self.group_of(state).control
        if block is None:
            self._let_measure(state)
        elif not state.reference_loaded and probe is not None:
            self.memory.confirm(state.member, probe, state.reference)
        if block is not None and now - state.excluded_at > self.options.retries_reset:
            state.exclusions = 0
        return self._close(state, block, loaded)

    def _close(self, state: MemberState, block: AnswerBlock | None, loaded: bool) -> AnswerBlock | None:
        """Close a block whose answers count."""
        if block is not None:
            state.blocks.remove(block)
            if loaded:
                block.mark_loaded()
        return block

    def _wait_for_quiet(self, state: MemberState, block: AnswerBlock | None, reason: str,
                        reported: bool) -> AnswerBlock | None:
        """Let a member wait until its machine is quiet. Its block is measured again.

        After `busy_timeout`, a member whose host has reported the load (`reported`) goes on, and its records are
        marked; any other one is excluded.
        """
        now = self.engine.now()
        state.busy_since = now if state.busy_since is None else state.busy_since
        if now - state.busy_since <= self.options.busy_timeout:
            self.release(state, MemberPhase.BUSY, reason)
            state.retry_at = now + min(self.options.longest_pause, self.options.pause * 2.0 ** min(state.pauses, 60))
            state.pauses += 1
        elif not reported:
            state.distrusted = True
            self.exclude(state, reason)
        else:
            if block is None:
                self._let_measure(state)
            return self._close(state, block, True)
        return None

    def _slowed_together(self, state: MemberState) -> bool:
        """Whether other members of its host have slowed down in these minutes: then the host is slow, not the member.

        One of them that was excluded for it waits for quiet instead.
        """
        now, host = self.engine.now(), state.member.host
        since = now - 2 * self.options.block_seconds
        others = [other for other in self.members.values() if other is not state and host
                  and other.member.host == host and other.slowed_at >= since]
        for other in others:
            other.busy_since = other.slowed_at if other.busy_since is None else other.busy_since
            if other.phase is MemberPhase.EXCLUDED and other.slowed_at <= other.excluded_at \
                    and now - other.busy_since <= self.options.busy_timeout:
                other.phase, other.distrusted = MemberPhase.BUSY, False
                other.exclusions -= 1
        return bool(others)

    def _let_measure(self, state: MemberState) -> None:
        state.phase = MemberPhase.MEASURING if state.handed else MemberPhase.WAITING
        state.idle_since = self.engine.now()
        self.group_of(state).free[state.name] = state

    def late(self, now: float) -> Iterator[MemberState]:
        """The members that are silent for longer than their batch allows."""
        return (state for state in self.members.values() if state.handed and state.is_late(now, self.options.grace))

    def due(self, now: float) -> Iterator[MemberState]:
        """The members whose backoff or pause is over."""
        phases = (MemberPhase.EXCLUDED, MemberPhase.BUSY)
        return (state for state in self.members.values() if state.phase in phases and now >= state.retry_at)
