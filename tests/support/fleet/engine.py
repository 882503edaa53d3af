"""SimulatedEngine: a fleet without devices, on a virtual clock, with known times and planned faults.

It shows what the driver does with hundreds of members, or with faults that nobody would like to cause, in seconds. The
same plan and seed give the same messages at the same virtual times. `begins` is the clock's first time: a driver that
was killed is followed by one that meets the faults that still hold.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from seqtune.data.record import Measurement, Status
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.fleet.batch import MeasuringBatch, Purpose
from seqtune.tuner.fleet.engine import QUIET, Answered, Event, Finished, Joined, Left, Member
from seqtune.tuner.load import Load

from .fault import FaultKind, FaultPlan, SimulatedFault

BUSY = Load(others=0.5)
Seconds = Callable[[Device, Problem, Configuration], float]  # the true time; infinite for one that crashes


def ignore_fault(fault: SimulatedFault) -> None:
    """Do not look at the fleet when a fault begins."""


class DriverKilled(Exception):
    """The planned end of the driver."""


class SimulatedMember:
    """A member: it works on its batches in their order, one configuration after another."""

    def __init__(self, member: Member, faults: Iterable[SimulatedFault]) -> None:
        self.member = member
        self.plan = FaultPlan([fault for fault in faults if fault.name == member.name])
        self.present = False
        self.life = 0  # number of its starts; a message from an earlier life is lost
        self.batches: deque[MeasuringBatch] = deque()
        self.index = 0  # of the configuration that it measures, in its first batch
        self.held: list[Answered] = []  # answers that will be shuffled
        self.cancelled: set[int] = set()
        self.loaded = False  # whether its machine was busy during its first batch


class SimulatedEngine:
    """An engine of simulated members. `cost` is the wall time of measuring a configuration, in seconds."""

    def __init__(self, members: Sequence[Member], seconds: Seconds, faults: Sequence[SimulatedFault] = (),
                 cost: float = 0.05, latency: float = 0.005, seed: int = 0, begins: float = 0.0,
                 driver_ends: float = math.inf,
                 on_fault: Callable[[SimulatedFault], None] = ignore_fault) -> None:
        self.members = {member.name: SimulatedMember(member, faults) for member in members}
        self.seconds, self.cost, self.latency = seconds, cost, latency
        self.clock = begins
        self.driver_ends, self.on_fault = driver_ends, on_fault
        self.measured = 0  # configurations, controls and doubles included
        self.busy = 0.0  # s that all members measured
        self._random = random.Random(seed)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._outbox: list[Event] = []
        for simulated in self.members.values():
            gone = simulated.plan.fault(FaultKind.KILLED, begins) or simulated.plan.fault(FaultKind.HUNG, begins)
            ready = gone.end if gone is not None and gone.begin < begins else begins
            if ready < math.inf:
                self._at(ready, partial(self._start, simulated))
        for fault in faults:
            if fault.begin >= begins:
                self._at(fault.begin, partial(self._begin, fault))

    def now(self) -> float:
        """The virtual clock, in seconds."""
        return self.clock

    def submit(self, name: str, batch: MeasuringBatch) -> None:
        """Send a batch."""
        simulated, life = self.members[name], self.members[name].life
        self._send(simulated, lambda: self._receive(simulated, life, batch))

    def cancel(self, name: str, number: int) -> None:
        """Ask to end a batch."""
        self._send(self.members[name], lambda: self.members[name].cancelled.add(number))

    def wait(self, seconds: float) -> list[Event]:
        """Let the virtual time pass until something happens. Raises DriverKilled at the planned time."""
        deadline = self.clock + seconds
        while not self._outbox or (self._queue and self._queue[0][0] <= self.clock):
            if not self._queue or self._queue[0][0] > deadline:
                self.clock = max(self.clock, deadline)
                break
            when, _, act = heapq.heappop(self._queue)
            self.clock = max(self.clock, when)
            act()
        if self.clock >= self.driver_ends:
            raise DriverKilled
        events, self._outbox = self._outbox, []
        return events

    def close(self) -> None:
        """Forget everything."""
        self._queue.clear()

    def _at(self, when: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._order), act))

    def _send(self, simulated: SimulatedMember, act: Callable[[], None]) -> None:
        """Carry a message from or to a member, unless its network stalls."""
        stall = simulated.plan.fault(FaultKind.STALLED, self.clock)
        self._at((self.clock if stall is None else stall.end) + self.latency, act)

    def _emit(self, simulated: SimulatedMember, event: Event) -> None:
        life = simulated.life

        def deliver() -> None:
            if simulated.life == life:
                self._outbox.append(event)

        self._send(simulated, deliver)

    def _start(self, simulated: SimulatedMember) -> None:
        simulated.present = True
        simulated.life += 1
        simulated.batches.clear()
        simulated.held, simulated.index = [], 0
        self._emit(simulated, Joined(simulated.member))

    def _begin(self, fault: SimulatedFault) -> None:
        self.on_fault(fault)
        simulated = self.members[fault.name]
        if fault.kind not in (FaultKind.KILLED, FaultKind.HUNG):
            return
        simulated.present = False
        simulated.life += 1
        simulated.batches.clear()
        if fault.kind is FaultKind.KILLED:
            self._outbox.append(Left(fault.name, "its worker was killed"))
        if fault.end < math.inf:
            self._at(fault.end, lambda: self._start(simulated))

    def _receive(self, simulated: SimulatedMember, life: int, batch: MeasuringBatch) -> None:
        if not simulated.present or simulated.life != life:
            return
        simulated.batches.append(batch)
        if len(simulated.batches) == 1:
            self._next(simulated)

    def _next(self, simulated: SimulatedMember) -> None:
        """Begin the next configuration, or end the batch."""
        if not simulated.batches:
            return
        batch, life = simulated.batches[0], simulated.life
        refused = simulated.plan.fault(FaultKind.REFUSING, self.clock) is not None
        if refused or simulated.index == len(batch.configurations) or batch.number in simulated.cancelled:
            self._random.shuffle(simulated.held)
            for answer in simulated.held:
                self._emit(simulated, answer)
            load = BUSY if simulated.loaded and batch.purpose is Purpose.CONTROL else QUIET
            error = "out of memory" if refused else ""
            self._emit(simulated, Finished(simulated.member.name, batch.number, error, load))
            simulated.loaded = False
            simulated.batches.popleft()
            simulated.held, simulated.index = [], 0
            self._next(simulated)
            return
        plan = simulated.plan
        cost = self.cost * plan.factor(FaultKind.SLOW, self.clock) * plan.factor(FaultKind.LOAD, self.clock)
        self._at(self.clock + cost, lambda: self._measured(simulated, life, cost))

    def _measured(self, simulated: SimulatedMember, life: int, cost: float) -> None:
        if simulated.life != life:
            return
        batch, index, plan = simulated.batches[0], simulated.index, simulated.plan
        self.measured += 1
        self.busy += cost
        simulated.loaded |= plan.fault(FaultKind.LOAD, self.clock) is not None
        simulated.index += 1
        answer = Answered(simulated.member.name, batch.number, index, self._measurement(simulated, batch, index))
        if plan.fault(FaultKind.SHUFFLED, self.clock) is not None:
            simulated.held.append(answer)
        else:
            for _ in range(1 if plan.fault(FaultKind.DOUBLED, self.clock) is None else 2):
                self._emit(simulated, answer)
        self._next(simulated)

    def _measurement(self, simulated: SimulatedMember, batch: MeasuringBatch, index: int) -> Measurement:
        if simulated.plan.fault(FaultKind.FAILING, self.clock) is not None:
            return Measurement(Status.RUNTIME, message="the device does not answer")
        seconds = self.seconds(simulated.member.device, batch.problem, batch.configurations[index])
        if math.isinf(seconds):
            return Measurement(Status.CRASH, message="signal 11")
        plan = simulated.plan
        reported = seconds * plan.factor(FaultKind.LYING, self.clock) * plan.factor(FaultKind.LOAD, self.clock)
        return Measurement(Status.CORRECT, (reported,) * (2 if batch.purpose is Purpose.COMPARE else 1), 0.0)
