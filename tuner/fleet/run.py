"""FleetRun: the driver. One loop, in one thread, asks searches, hands batches to members and writes the journal.

Answers of a member are written when the control after them is good (`control`). When a member is lost, late or
distrusted, another member of the same group repeats every measurement that is not in the journal yet (`roster`).
Decisions depend on the engine's clock alone, which never jumps.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTuning, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..run.plan import Plan, Skipped
from ..run.result import TuningResult
from ..stop_request import StopRequest
from . import control
from .batch import Purpose, is_sound
from .engine import Answered, Engine, Event, Finished, Joined, Left, Member
from .group import JOIN_SECONDS, Group
from .group_search import Answer, GroupSearch, JournalWriter
from .member_state import FleetProgress, HandedBatch, MemberPhase, MemberState
from .reference_memory import ReferenceMemory
from .roster import Roster

BLOCK_MOST = 500  # answers of a block
MOST_HELD = 100_000  # answers of all blocks, which are in memory until their control (about 1 kB each)
STOP_SECONDS = 30.0  # to wait for the controls after Ctrl-C
TICK = 0.5  # seconds between two looks at the clocks; also the longest time that Ctrl-C waits for the engine
REPORT_SECONDS = 1.0  # between two reports of the progress


class FleetRun:
    """A run of a plan by the members of a fleet. A repeated problem counts once. Use it once.

    `report` is called about once a second. `wall` tells the seconds since 1970 for records; no decision depends on it.
    """

    def __init__(self, plan: Plan, engine: Engine, journal: Journal,
                 report: Callable[[FleetProgress], None] | None = None, wall: Callable[[], float] = time.time) -> None:
        self.plan = replace(plan, problems=tuple(dict.fromkeys(plan.problems)))
        self.engine, self.journal, self._report_to, self._wall = engine, journal, report, wall
        self.memory = ReferenceMemory(journal.path, wall, engine.now)
        self.roster = Roster(engine, plan.options.measuring, self.memory, self._make_group)
        self.writer = JournalWriter(journal, engine.now)
        self.begun = engine.now()
        self._ticked = self._reported = -math.inf
        self._stop = StopRequest()
        self._stopped_at: float | None = None  # engine's seconds

    @property
    def skipped(self) -> list[Skipped]:
        """The problems that were left out, of all groups."""
        return [skipped for group in self._groups for skipped in group.skipped]

    @property
    def _groups(self) -> list[Group]:
        return list(self.roster.groups.values())

    def results(self) -> Iterator[TuningResult]:
        """Run; yield the result of each problem on each group when it is known. Closes the engine at the end.

        After Ctrl-C the blocks are closed and written, then InterruptedTuning is raised; a second Ctrl-C ends the run
        at once. Raises SeqtuneError if a group has lost all members or the journal cannot be written, FormatError if
        the journal is lost.
        """
        try:
            with self._stop:
                while self.plan.problems and not self._is_done():
                    for event in self.engine.wait(0.0 if self.writer.unwritten and not self.writer.fault else TICK):
                        self._handle(event)
                    for search in self.writer.write():
                        self.roster.groups[search.group_key].offer(search)
                    self._tick()
                    for group in self._groups:
                        yield from (replace(result, members=tuple(group.members)) for result in group.collect())
                    self._dispatch()
            self.memory.save(at_once=True)
            self._report()
            self._raise_unfinished()
        except KeyboardInterrupt:
            self.memory.save(at_once=True)
            so_far = [replace(search.search.so_far(), members=tuple(group.members))
                      for group in self._groups for search in group.searches.values()]
            raise InterruptedTuning(self._interruption(), so_far) from None
        finally:
            self.engine.close()

    def progress(self) -> FleetProgress:
        """The state of the run."""
        counts = [group.trials() for group in self._groups]
        members = tuple(state.progress() for state in self.roster.members.values())
        rate = sum(member.rate for member in members if member.phase is MemberPhase.MEASURING)
        return FleetProgress(members, sum(done for done, _ in counts), sum(total for _, total in counts),
                             self.engine.now() - self.begun, rate, self.writer.fault or self.memory.fault)

    def _make_group(self, member: Member) -> Group:
        self.journal.add_device(member.device)
        return Group(member.device, self.plan, control.probe(member.device, self.plan), self._open_search)

    def _open_search(self, problem: Problem, device: Device) -> GroupSearch:
        task = self.plan.task_of(problem, device)
        if self.plan.retry_failed:
            self.journal.forget_failed(problem, device, task.kernels)
        return GroupSearch(task, self.journal, self.plan.budget, self.plan.options)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Joined):
            self.roster.join(event.member)
            return
        state = self.roster.members.get(event.name)
        if state is None:
            return
        if isinstance(event, Left):
            if state.phase is not MemberPhase.EXCLUDED:
                self.roster.release(state, MemberPhase.LEFT, event.reason)
            return
        state.heard = self.engine.now()
        if state.phase is MemberPhase.LATE and event.number not in state.handed:
            self.roster.open(state)  # it answers again; its old batches were given to others
        elif isinstance(event, Answered):
            self._answer(state, event)
        elif event.number in state.handed:
            self._finish(state, event)

    def _answer(self, state: MemberState, event: Answered) -> None:
        handed = state.handed.get(event.number)
        if handed is None or event.index in handed.answers \
                or not 0 <= event.index < len(handed.batch.configurations) or not is_sound(event.measurement):
            return  # it came twice or too late, or is no measurement
        handed.answers[event.index] = event.measurement.seconds
        if handed.search is None:
            return
        purpose, search = handed.batch.purpose, handed.search
        record = search.search.record_of(
            handed.batch.configurations[event.index], event.measurement,
            "final" if purpose is Purpose.COMPARE else search.options.strategy, self._wall(), state.member.host)
        state.take_answer(Answer(search, purpose, record))
        self.roster.group_of(state).advance(search)

    def _finish(self, state: MemberState, event: Finished) -> None:
        group = self.roster.group_of(state)
        handed = state.finish(event.number, self.engine.now())
        if handed.search is None:
            self.writer.unwritten.extend(self.roster.check_control(state, handed, event.error, event.load))
        else:
            group.learn_pace(handed.search)
            self._check_answers(state, handed, handed.search, event.error)
        if state.is_ready:
            group.free[state.name] = state

    def _check_answers(self, state: MemberState, handed: HandedBatch, search: GroupSearch, error: str) -> None:
        """Give back what a batch that is finished has not answered, and count it as a failure."""
        if not handed.unanswered():
            state.consecutive_failures = 0
        else:
            handed.give_back()
            if self._stopped_at is None:
                reason = error or "it has not answered all of its batch"
                search.refused[state.name] = reason
                self.roster.count_failure(state, state.phase, f"{handed.batch.problem.brief()}: {reason}")
        self.roster.group_of(state).advance(search)

    def _tick(self) -> None:
        """Look at the clocks: members that are late or due, blocks of idle members, groups without members."""
        now = self.engine.now()
        if now - self._ticked < TICK:
            return
        self._ticked = now
        for state in list(self.roster.members.values()):
            if state.is_late(now):
                self.roster.count_failure(state, MemberPhase.LATE, f"it has not answered for {now - state.heard:.0f} s")
            elif now >= state.retry_at:
                self.roster.open(state)
        for group in self._groups:
            self._close_idle(group, now)
            group.give_up_refused()
            group.give_up_without_members(now)
        if not self.roster.members and now - self.begun > JOIN_SECONDS:
            raise SeqtuneError(f"no member has joined the fleet for {JOIN_SECONDS:.0f} s")
        self.memory.save()
        if self._stop.asked:
            self._stop_in_order(now)
        if now - self._reported >= REPORT_SECONDS:
            self._report()

    def _close_idle(self, group: Group, now: float) -> None:
        """Close the blocks of members that have had nothing to do for a moment."""
        for state in group.free.values():
            if state.block and state.is_ready and not state.handed and now - state.idle_since >= TICK:
                self.roster.hand_control(state)

    def _stop_in_order(self, now: float) -> None:
        """After Ctrl-C: cancel what is under way, wait for the last controls, and end the run."""
        if self._stopped_at is None:
            self._stopped_at = now
            for group in self._groups:
                for search in group.searches.values():
                    search.stop()
            for state in self.roster.members.values():
                for number, handed in state.handed.items():
                    if handed.search is not None:
                        self.engine.cancel(state.name, number)
        if not (self._unproved() or self.writer.unwritten) or now - self._stopped_at > STOP_SECONDS:
            raise KeyboardInterrupt

    def _unproved(self) -> int:
        """The number of answers whose control is still to come."""
        return sum(len(state.block) for state in self.roster.members.values())

    def _dispatch(self) -> None:
        """Hand work to the members that have too little, unless the journal cannot follow."""
        if self.writer.fault or self._stopped_at is not None or len(self.writer.unwritten) > MOST_HELD:
            return
        now = self.engine.now()
        # The answers of a block: fewer where many members hold blocks.
        most = max(1, min(BLOCK_MOST, MOST_HELD // max(1, len(self.roster.members))))
        for group in self._groups:
            for state in list(group.free.values()):
                if not group.has_work:
                    break
                while state.is_ready and self._hand_work(group, state, now, most):
                    pass
                if not state.is_ready:
                    group.free.pop(state.name, None)

    def _hand_work(self, group: Group, state: MemberState, now: float, most: int) -> bool:
        """Hand a member a batch of at most `most` configurations, or the control after its block; false: neither."""
        if state.block and (len(state.block) >= most or now - state.opened >= control.BLOCK_SECONDS):
            self.roster.hand_control(state)
            return True
        search = group.next_search(state) if len(state.handed) < group.pipeline else None
        if search is None:
            return False
        purpose, configurations = search.take(min(group.share(search), most))
        self.roster.hand(state, purpose, search.search.task.problem, configurations, search)
        return True

    def _is_done(self) -> bool:
        return bool(self._groups) and all(group.is_done for group in self._groups)

    def _report(self) -> None:
        self._reported = self.engine.now()
        if self._report_to is not None:
            self._report_to(self.progress())

    def _raise_unfinished(self) -> None:
        """Raise SeqtuneError if a group was given up because it has no member."""
        losses = {group.loss for group in self._groups if group.loss}
        if losses:
            unfinished = sum(skipped.reason in losses for skipped in self.skipped)
            raise SeqtuneError(f"{unfinished} problems are not finished: {min(losses)}; what was measured is in "
                               f"{self.journal.path}; run again to go on")

    def _interruption(self) -> str:
        lost = len(self.writer.unwritten) + self._unproved()
        missing = f", except {lost} whose control or writing was not awaited" if lost else ""
        return (f"stopped after {self.progress().done} trials of the fleet; all are in {self.journal.path}{missing}; "
                "run again to resume")
