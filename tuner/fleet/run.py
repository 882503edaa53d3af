"""FleetRun: the driver. One loop, in one thread, asks searches, hands batches to members and writes the journal.

Answers of a member are written when the control after them is good (`control`). When a member is lost, late or
distrusted, another member of the same group repeats every measurement that is not in the journal yet (`roster`).
Decisions depend on the engine's clock alone, which never jumps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from seqtune.data.journal.journal import Journal
from seqtune.errors import InterruptedTuning, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..run.plan import Plan, Skipped
from ..run.result import TuningResult
from ..stop_request import StopRequest
from .answers import Answer, JournalWriter
from .batch import is_sound
from .control import probe
from .engine import Answered, Engine, Event, Finished, Joined, Left
from .group import Group
from .group_search import GroupSearch
from .member import Member, MemberPhase
from .member_state import HandedBatch, MemberState
from .options import FleetOptions, FleetProgress
from .reference_memory import ReferenceMemory
from .roster import Roster

DEFAULT_FLEET_OPTIONS = FleetOptions()
REPORT_SECONDS = 1.0  # between two reports of the progress


class FleetRun:
    """A run of a plan by the members of a fleet. A repeated problem counts once. Use it once."""

    def __init__(self, plan: Plan, engine: Engine, journal: Journal,
                 options: FleetOptions = DEFAULT_FLEET_OPTIONS) -> None:
        self.plan = replace(plan, problems=tuple(dict.fromkeys(plan.problems)))
        self.engine, self.journal, self.options = engine, journal, options
        self.memory = ReferenceMemory(journal.path, options.wall, engine.now)
        self.roster = Roster(engine, options, plan.options.measuring, self.memory, self._make_group)
        self.writer = JournalWriter(journal)
        self.begun = engine.now()
        self._ticked = self._reported = self._write_at = -math.inf
        self._faulty_since: float | None = None  # engine's seconds, since when the journal cannot be written
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
                    busy = self.writer.unwritten and self._faulty_since is None
                    for event in self.engine.wait(0.0 if busy else self.options.tick):
                        self._handle(event)
                    self._write()
                    self._tick()
                    yield from self._collect()
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
        return Group(member.device, self.plan, probe(member.device, self.plan), self.options, self._open_search)

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
        if handed is None or event.index in handed.answered \
                or not 0 <= event.index < len(handed.batch.configurations) or not is_sound(event.measurement):
            return  # it came twice or too late, or is no measurement
        if handed.search is None:
            handed.answered.add(event.index)
            handed.seconds.append(event.measurement.seconds)
            return
        state.take_answer(handed, Answer(
            handed.search, handed.batch.purpose, handed.batch.configurations[event.index], event.measurement,
            self.options.wall(), state.member.host), event.index)
        self.roster.group_of(state).advance(handed.search)

    def _finish(self, state: MemberState, event: Finished) -> None:
        group = self.roster.group_of(state)
        handed = state.finish(event.number, self.engine.now())
        if handed.search is None:
            block = self.roster.check_control(state, handed, event.error, event.load)
            if block is not None:
                self.writer.add(block.answers)
        else:
            group.learn_pace(handed.search)
            self._check_answers(state, handed, event.error)
        if state.is_ready:
            group.free[state.name] = state

    def _check_answers(self, state: MemberState, handed: HandedBatch, error: str) -> None:
        assert handed.search is not None
        if handed.unanswered() and self._stopped_at is None:
            reason = error or "it has not answered all of its batch"
            handed.search.refused[state.name] = reason
            self.roster.count_failure(state, state.phase, f"{handed.batch.problem.brief()}: {reason}")
        else:
            state.consecutive_failures = 0
        if handed.unanswered():
            handed.give_back()
        self.roster.group_of(state).advance(handed.search)

    def _write(self) -> None:
        """Write some of the proved answers. After a failed write, wait for `write_retry`."""
        now = self.engine.now()
        if not self.writer.unwritten or now < self._write_at:
            return
        written = self.writer.write()
        for search in {id(answer.search): answer.search for answer in written}.values():
            self.roster.groups[search.group_key].offer(search)
        if written:
            self._faulty_since = None
            return
        self._write_at = now + self.options.write_retry
        self._faulty_since = now if self._faulty_since is None else self._faulty_since
        if now - self._faulty_since > self.options.write_timeout:
            raise SeqtuneError(
                f"{self.writer.fault} (for {self.options.write_timeout:.0f} s); {len(self.writer.unwritten)} "
                "measurements are not in it; make room and run again to measure them again")

    def _tick(self) -> None:
        """Look at the clocks: members that are late or due, blocks of idle members, groups without members."""
        now = self.engine.now()
        if now - self._ticked < self.options.tick:
            return
        self._ticked = now
        for state in list(self.roster.late(now)):
            self.roster.count_failure(state, MemberPhase.LATE, f"it has not answered for {now - state.heard:.0f} s")
        for state in list(self.roster.due(now)):
            self.roster.open(state)
        for group in self._groups:
            self._close_idle(group, now)
            for search in list(group.searches.values()):
                reason = group.refusing(search)
                if reason:
                    group.give_up(search.search.task.problem, reason)
        self._look_for_members(now)
        self.memory.save()
        if self._stop.asked:
            self._stop_in_order(now)
        if now - self._reported >= REPORT_SECONDS:
            self._report()

    def _close_idle(self, group: Group, now: float) -> None:
        """Close the blocks of members that have had nothing to do for a moment."""
        for state in group.free.values():
            block = state.blocks[-1] if state.blocks else None
            if block is not None and block.answers and not block.closing \
                    and state.phase is MemberPhase.WAITING and now - state.idle_since >= self.options.tick:
                self.roster.hand_control(state, block)

    def _look_for_members(self, now: float) -> None:
        """Give up groups without members. Raises SeqtuneError if nobody has ever joined."""
        if not self.roster.members and now - self.begun > self.options.join_timeout:
            raise SeqtuneError(f"no member has joined the fleet for {self.options.join_timeout:.0f} s")
        for group in self._groups:
            group.give_up_without_members(now)

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
        if not (self._unproved() or self.writer.unwritten) or now - self._stopped_at > self.options.stop_timeout:
            raise KeyboardInterrupt

    def _unproved(self) -> int:
        """The number of answers whose control is still to come."""
        return sum(len(block.answers) for state in self.roster.members.values() for block in state.blocks)

    def _dispatch(self) -> None:
        """Hand work to the members that have too little, unless the journal cannot follow."""
        if self._faulty_since is not None or self._stopped_at is not None \
                or len(self.writer.unwritten) > self.options.held_most:
            return
        now, most = self.engine.now(), self._block_most()
        for group in self._groups:
            for state in list(group.free.values()):
                if not group.has_work:
                    break
                while state.is_ready and self._hand_work(group, state, now, most):
                    pass
                if not state.is_ready:
                    group.free.pop(state.name, None)

    def _hand_work(self, group: Group, state: MemberState, now: float, most: int) -> bool:
        block = state.open_block(now)
        if block.answers and (len(block.answers) >= most or now - block.opened >= self.options.block_seconds):
            self.roster.hand_control(state, block)
            return True
        search = group.next_search(state) if len(state.handed) < group.pipeline else None
        if search is None:
            return False
        purpose, configurations = search.take(min(group.share(search), most))
        self.roster.hand(state, purpose, search.search.task.problem, configurations, search, block)
        return True

    def _block_most(self) -> int:
        """The answers of a block: fewer where many members hold blocks."""
        return max(1, min(self.options.block_most, self.options.held_most // max(1, len(self.roster.members))))

    def _collect(self) -> Iterator[TuningResult]:
        for group in self._groups:
            for result in group.collect():
                yield replace(result, members=tuple(group.members))

    def _is_done(self) -> bool:
        return bool(self._groups) and all(group.is_done for group in self._groups)

    def _report(self) -> None:
        self._reported = self.engine.now()
        self.options.on_fleet_progress(self.progress())

    def _raise_unfinished(self) -> None:
        """Raise SeqtuneError if a group was given up because it has no member."""
        lost = [group for group in self._groups if group.unfinished]
        if lost:
            raise SeqtuneError(f"{sum(group.unfinished for group in lost)} problems are not finished: "
                               f"{lost[0].loss}; what was measured is in {self.journal.path}; run again to go on")

    def _interruption(self) -> str:
        lost = len(self.writer.unwritten) + self._unproved()
        missing = f", except {lost} whose control or writing was not awaited" if lost else ""
        return (f"stopped after {self.progress().done} trials of the fleet; all are in {self.journal.path}{missing}; "
                "run again to resume")
