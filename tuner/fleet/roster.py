"""Roster: the members of a fleet, in groups; who may measure, who is late, who is not believed any more."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from . import control
from .batch import MeasuringBatch, Purpose
from .block import AnswerBlock
from .engine import Engine
from .fleet_options import FleetOptions
from .group import Group
from .group_search import GroupSearch
from .member import Likeness, Member
from .member_state import HandedBatch, MemberState
from .progress import MemberPhase


class Roster:
    """Knows every member by name. It hands batches to the engine and judges controls; what to measure is not its task.
    """

    def __init__(self, engine: Engine, options: FleetOptions, make_group: Callable[[Member], Group]) -> None:
        self.engine, self.options = engine, options
        self.members: dict[str, MemberState] = {}
        self.groups: dict[Likeness, Group] = {}
        self._make_group = make_group
        self._numbers = itertools.count(1)

    def group_of(self, state: MemberState) -> Group:
        """The group of a member."""
        return self.groups[state.likeness]

    def join(self, member: Member) -> None:
        """Take up a member, or one that comes back: it opens with controls. One that rests goes on resting."""
        state = self.members.get(member.name)
        if state is not None and state.likeness != member.likeness:
            self.release(state, MemberPhase.LEFT, "its device has changed")
            del self.group_of(state).members[member.name]
            state = None
        if member.likeness not in self.groups:
            self.groups[member.likeness] = self._make_group(member)
        if state is None:
            state = self.members[member.name] = MemberState(member, self.engine.now())
            self.group_of(state).members[member.name] = state
        elif state.phase is MemberPhase.ASIDE:
            return
        elif state.phase is not MemberPhase.LEFT:
            self.release(state, MemberPhase.LEFT, "it began anew")
        state.member = member
        self.open(state)

    def open(self, state: MemberState) -> None:
        """Let a member begin, or begin again, with its first controls."""
        state.phase, state.reason, state.until = MemberPhase.OPENING, "", math.inf
        if self.group_of(state).control is None:  # no kernel solves any of the problems, as the group will find
            self._let_measure(state)
        else:
            self.hand_control(state, None)

    def hand_control(self, state: MemberState, block: AnswerBlock | None, repeats: int = 0) -> None:
        """Hand a control to a member: the first ones if `block` is None, else the one that closes the block."""
        probe = self.group_of(state).control
        assert probe is not None
        if block is not None:
            block.closing = True
        problem, default = probe
        configurations = (default,) * (control.OPENING if block is None else 1)
        self.hand(state, Purpose.CONTROL, problem, configurations, None, block, repeats)

    def hand(self, state: MemberState, purpose: Purpose, problem: Problem, configurations: tuple[Configuration, ...],
             search: GroupSearch | None, block: AnswerBlock | None, repeats: int = 0) -> None:
        """Hand a batch to a member."""
        best, rounds = (search.best, 0) if search is not None else (math.inf, 0)
        if search is not None and purpose is Purpose.COMPARE:
            best, rounds = math.inf, search.rounds
        measuring = self.options.tuning.measuring
        if search is None:
            measuring = replace(measuring, samples=max(measuring.samples, control.SAMPLES))
        batch = MeasuringBatch(next(self._numbers), purpose, problem, configurations, measuring, best, rounds)
        state.hand(HandedBatch(batch, block, search, repeats), self.engine.now())
        self.engine.submit(state.name, batch)

    def release(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Stop to count on a member: all that is not in the journal is measured again, by others."""
        searches = {id(search): search for search in state.open_searches()}
        searches.update({id(handed.search): handed.search for handed in state.handed.values() if handed.search})
        for number in state.release(phase, reason):
            self.engine.cancel(state.name, number)
        group = self.group_of(state)
        group.forget_usual()
        group.hungry.pop(state.name, None)
        for search in searches.values():
            group.advance(search)

    def set_aside(self, state: MemberState, reason: str) -> None:
        """Set a member aside: for a rest, or for good after `rests` of them."""
        state.rests += 1
        state.strikes = 0
        self.release(state, MemberPhase.ASIDE, reason)
        rest = min(self.options.longest_rest, self.options.rest * 2.0 ** min(state.rests - 1, 60))
        state.until = self.engine.now() + rest if state.rests <= self.options.rests else math.inf

    def strike(self, state: MemberState, phase: MemberPhase, reason: str) -> None:
        """Count a failure of a member that may be its own fault, and set it aside after `strikes` in a row.

        A member that is late is released at once.
        """
        state.strikes += 1
        if state.strikes >= self.options.strikes:
            self.set_aside(state, reason)
        elif phase is MemberPhase.LATE:
            self.release(state, MemberPhase.LATE, reason)

    def judge(self, state: MemberState, handed: HandedBatch, error: str) -> AnswerBlock | None:
        """Judge a control that is finished; return the block that it has proved, which may be written."""
        group, seconds = self.group_of(state), state.control_seconds(handed, error)
        reason = control.fault(seconds, state.reference, group.usual())
        if reason and handed.repeats < control.REPEATS:
            self.hand_control(state, handed.block, handed.repeats + 1)
            return None
        if reason:
            state.doubted = True
            self.set_aside(state, f"{reason} ({error})" if error else reason)
            return None
        if state.reference is None:
            state.reference = seconds
            group.forget_usual()
        if handed.block is None:
            self._let_measure(state)
            return None
        state.blocks.remove(handed.block)
        return handed.block

    def _let_measure(self, state: MemberState) -> None:
        state.phase = MemberPhase.MEASURING if state.handed else MemberPhase.WAITING
        state.idle_since = self.engine.now()
        self.group_of(state).hungry[state.name] = state

    def late(self, now: float) -> Iterator[MemberState]:
        """The members that are silent for longer than their batch allows."""
        return (state for state in self.members.values() if state.handed and state.is_late(now, self.options.grace))

    def rested(self, now: float) -> Iterator[MemberState]:
        """The members whose rest is over."""
        return (state for state in self.members.values() if state.phase is MemberPhase.ASIDE and now >= state.until)
