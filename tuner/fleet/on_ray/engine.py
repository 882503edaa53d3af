"""RayEngine: carries the messages of a fleet over Ray. Each device has a named actor, which is asked for events.

A call for events returns when the actor has something to tell, or after POLL_SECONDS, so a sound member is never silent
for longer. Ray neither restarts actors nor repeats their calls: what it repeated would be there twice, or unproved.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any

from seqtune.errors import MisuseError

from ..batch import MeasuringBatch
from ..engine import Event, Joined, Left, Member
from .cluster import FleetAddress, RayCluster, reason_of
from .member import BESIDE, RayMember, hello

POLL_SECONDS = 10.0  # until a member without news answers
LOOK_SECONDS = 5.0  # between two looks for nodes that came
FURTHER_SECONDS = 5.0  # to wait for further members when one is ready
START_SECONDS = 120.0  # until the first member is ready: imports, and the rates of its device
CLOSE_SECONDS = 1.0  # that members have to remove their files
MOST_STARTS = 4  # of one member: a device whose process dies again and again is left alone
CALLS = 5  # that an actor serves beside a batch at a time: events, and short ones


@dataclass(slots=True)
class MemberActor:
    """The Ray actor of a member on a device of a node, and the call to it that is under way."""

    name: str
    node: str  # Ray's identity of the node
    handle: Any  # Ray's, for calls
    call: Any  # Ray's reference of the answer
    member: Member | None = None  # None until it is ready


class RayEngine:
    """An Engine over Ray. `device` is a device's name, which every member resolves on its own machine."""

    def __init__(self, address: FleetAddress, device: str,
                 connect: Callable[[FleetAddress, str], RayCluster] = RayCluster) -> None:
        """Connect, and wait at most START_SECONDS until a member is ready. Raises MisuseError if there is none."""
        self.device = device
        self._actors: dict[str, MemberActor] = {}
        self._starts = Counter[str]()  # by name
        self._reasons: dict[str, str] = {}  # name of an actor -> why its member failed to start
        self._refusals = Counter[str]()  # node -> its devices that do not take part
        self._events: list[Event] = []
        self._looked = -math.inf
        self.cluster = connect(address, device.partition(":")[0])
        try:
            self._hello = hello(device, os.environ.get("RAY_AUTH_MODE", ""))
            self._actor_class = self.cluster.ray.remote(concurrency_groups={BESIDE: CALLS})(RayMember)
            self._await_members()
        except BaseException:
            self.close()
            raise

    @property
    def members(self) -> list[Member]:
        """The members that are ready."""
        return [actor.member for actor in self._actors.values() if actor.member is not None]

    def now(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def submit(self, name: str, batch: MeasuringBatch) -> None:
        """Hand a batch to a member. Raises SeqtuneError if the cluster is gone."""
        if (actor := self._actors.get(name)) is not None:
            self._call(actor.handle.measure, batch)

    def cancel(self, name: str, number: int) -> None:
        """Ask a member to end a batch. Raises SeqtuneError if the cluster is gone."""
        if (actor := self._actors.get(name)) is not None:
            self._call(actor.handle.cancel, number)

    def note(self, text: str) -> None:
        """Leave the view of the whole fleet, as JSON, with a member for those who ask for the status."""
        for member in self.members[:1]:
            self._call(self._actors[member.name].handle.note, text)

    def wait(self, seconds: float) -> list[Event]:
        """Wait for events, at most `seconds`. Raises SeqtuneError if the cluster is gone."""
        deadline = time.monotonic() + seconds
        while True:
            self._look()
            self._receive(max(0.0, min(deadline - time.monotonic(), LOOK_SECONDS)))
            if self._events or time.monotonic() >= deadline:
                events, self._events = self._events, []
                return events

    def _call(self, method: Any, *arguments: object) -> None:
        """Call a method of an actor without waiting for its answer. Raises SeqtuneError if the cluster is gone."""
        try:
            method.remote(*arguments)
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.cluster.lost(error) from None

    def close(self) -> None:
        """End the members and the connection. It may be called twice: after the end, any call would start Ray anew."""
        if self._actors and not self.cluster.is_gone:
            with suppress(Exception):  # Ray's: they are gone
                farewells = [call.remote() for actor in self._actors.values()
                             for call in (actor.handle.remove_files, actor.handle.close)]
                self.cluster.ray.wait(farewells, num_returns=len(farewells), timeout=CLOSE_SECONDS)
        for actor in list(self._actors.values()):
            self._leave(actor, "")
        self.cluster.close()

    def _await_members(self) -> None:
        """Wait until one member is ready and, for a moment, for those that start with it."""
        deadline = time.monotonic() + START_SECONDS
        self._look()
        while len(self.members) < len(self._actors) and time.monotonic() < deadline:
            self._receive(0.5)
            if self.members:
                deadline = min(deadline, time.monotonic() + FURTHER_SECONDS)
            self._look()
        if not self.members:
            word = f"seqtune_{self.cluster.backend}"
            reasons = [f"{name}: {reason}" for name, reason in self._reasons.items()] or [
                f"{name} did not start within {START_SECONDS:.0f} s; does another job use it?" for name in self._actors]
            raise MisuseError(f"no member of the fleet has {self.device}: " + ("; ".join(reasons) or (
                f"no node offers the resource {word}; start nodes with ray start --resources '{{\"{word}\": 1}}'")))

    def _look(self) -> None:
        """Start an actor for each device without one, at most every LOOK_SECONDS."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for offer in self.cluster.offers():
            taken = sum(actor.node == offer.node for actor in self._actors.values()) + self._refusals[offer.node]
            names = (f"{offer.host}/{self.device}" + (f"#{number}" if number > 1 else "") for number in count(1))
            for _ in range(offer.count - taken):
                name = next(name for name in names if name not in self._actors)
                if self._starts[name] < MOST_STARTS:
                    with suppress(ValueError):  # its name is taken: by another driver's fleet, or a process that ends
                        handle = self._actor_class.options(name=name, **offer.options).remote(name, self._hello)
                        self._starts[name] += 1
                        self._actors[name] = MemberActor(name, offer.node, handle, handle.open.remote())

    def _receive(self, seconds: float) -> None:
        """Turn the answers that have come into events."""
        calls = {actor.call: actor for actor in self._actors.values()}
        if not calls or self.cluster.is_gone:
            time.sleep(min(seconds, 0.5))
            return
        ray = self.cluster.ray
        try:
            ready, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
            if ready and len(calls) > 1:
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.cluster.lost(error) from None
        for call in ready:
            try:
                self._answered(calls[call], ray.get(call))
            except Exception as error:  # Ray's: the actor or its node is gone
                self._leave(calls[call], reason_of(error))

    def _answered(self, actor: MemberActor, answer: Any) -> None:
        """Take the first answer of an actor, which is its member or why there is none, or its events; ask for more."""
        if actor.member is not None:
            self._events += answer
        elif isinstance(answer, str):
            self._refusals[actor.node] += 1
            self._leave(actor, answer)
            return
        else:
            actor.member = answer
            self._events.append(Joined(answer))
        actor.call = actor.handle.events.remote(POLL_SECONDS)

    def _leave(self, actor: MemberActor, reason: str) -> None:
        """End an actor and its worker. Without its head, Ray would wait for it; the nodes end it later."""
        del self._actors[actor.name]
        if not self.cluster.is_gone:
            with suppress(Exception):  # Ray's: it is gone
                self.cluster.ray.kill(actor.handle)
        if actor.member is None:
            self._reasons[actor.name] = reason
        self._events.append(Left(actor.name, reason))
