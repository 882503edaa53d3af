"""RayEngine: carries the messages of a fleet over Ray. Each device has an actor, which is asked for events.

Calls that wait (`events`) are long polls: the actor returns when it has something to tell, or after POLL_SECONDS, so a
member that is sound is never silent for longer.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import suppress
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from seqtune.data.record import Measurement
from seqtune.errors import FormatError, MisuseError, SeqtuneError, one_line

from ...load import Load
from ..batch import MeasuringBatch
from ..engine import Answered, Event, Finished, Joined, Left
from ..member import Member
from .cluster import NAMESPACE, FleetAddress, Offer, RayCluster
from .member import RayMember, hello

POLL_SECONDS = 10.0  # until a member without news answers
LOOK_SECONDS = 5.0  # between two looks for nodes that came
FURTHER_SECONDS = 5.0  # to wait for further members when one is ready
START_SECONDS = 120.0  # until the first member is ready: imports, and the rates of its device
CLOSE_SECONDS = 1.0  # that members have to remove their files
MOST_STARTS = 4  # of one member: a device whose process dies again and again is left alone
CALLS = 6  # that an actor serves at a time: events, and short ones beside it


@dataclass(slots=True)
class MemberActor:
    """The Ray actor of a member on a device of a node, and the call to it that is under way."""

    name: str
    node: str  # Ray's identity of the node
    handle: Any  # Ray's, for calls
    call: Any  # Ray's reference of the answer
    member: Member | None = None
    sizes: dict[int, int] | None = None  # number of a batch -> its configurations
    orders: int = 0


class RayEngine:
    """An Engine over Ray. `device` is a device's name, which every member resolves on its own machine."""

    def __init__(self, address: FleetAddress, device: str, seconds: float = START_SECONDS,
                 look_seconds: float = LOOK_SECONDS,
                 connect: Callable[[FleetAddress, str], RayCluster] = RayCluster) -> None:
        """Connect, and wait at most `seconds` until a member is ready. Raises MisuseError if there is none.

        There are `look_seconds` between two looks for nodes that came.
        """
        self.device, self._look_seconds = device, look_seconds
        self._actors: dict[str, MemberActor] = {}
        self._starts: dict[str, int] = {}
        self._reasons: dict[str, str] = {}  # name of an actor -> why its member failed to start
        self._refusals = Counter[str]()  # node -> its devices that do not take part
        self._events: list[Event] = []
        self._looked = -math.inf
        self.cluster = connect(address, device.partition(":")[0])
        try:
            self._greeting = json.dumps(hello(device, os.environ.get("RAY_AUTH_MODE", "")))
            self._actor_class = self.cluster.ray.remote(RayMember)
            self._await_members(seconds)
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
        """Hand a batch to a member."""
        actor = self._actors.get(name)
        if actor is None or actor.member is None or actor.sizes is None:
            return
        actor.sizes[batch.number] = len(batch.configurations)
        self._call(actor.handle.submit, actor.orders, json.dumps(batch.to_json()))
        actor.orders += 1

    def cancel(self, name: str, number: int) -> None:
        """Ask a member to end a batch."""
        if (actor := self._actors.get(name)) is not None and number in (actor.sizes or {}):
            self._call(actor.handle.cancel, number)

    def note(self, text: str) -> None:
        """Leave the view of the whole fleet, as JSON, with a member for those who ask for the status."""
        if (actor := next((actor for actor in self._actors.values() if actor.member is not None), None)) is not None:
            self._call(actor.handle.note, text)

    def wait(self, seconds: float) -> list[Event]:
        """Wait for events, at most `seconds`. Raises SeqtuneError if the cluster is gone."""
        deadline = time.monotonic() + seconds
        while True:
            self._look()
            self._receive(max(0.0, min(deadline - time.monotonic(), self._look_seconds)))
            if self._events or time.monotonic() >= deadline:
                events, self._events = self._events, []
                return events

    def _call(self, method: Any, *arguments: object) -> None:
        """Call a method of an actor without an answer. Raises SeqtuneError if the cluster is gone."""
        if self.cluster.is_silent:
            return
        try:
            method.remote(*arguments)
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.cluster.lost(_cause(error)) from None

    def close(self) -> None:
        """End the members and the connection."""
        ready = [actor for actor in self._actors.values() if actor.member is not None and not self.cluster.is_gone]
        with suppress(Exception):  # Ray's: they are gone
            farewells = [actor.handle.close.remote() for actor in ready]
            if farewells:
                self.cluster.ray.wait(farewells, num_returns=len(farewells), timeout=CLOSE_SECONDS)
        for actor in self._actors.values():
            self._end(actor)
        self._actors.clear()
        self.cluster.close()

    def _await_members(self, seconds: float) -> None:
        """Wait until one member is ready and, for a moment, for those that start with it."""
        deadline, first = time.monotonic() + seconds, math.inf
        while time.monotonic() < deadline:
            self._look()
            if not self._actors:
                break
            self._receive(0.5)
            ready = len(self.members)
            if ready and (first := min(first, time.monotonic())) + FURTHER_SECONDS < time.monotonic():
                return
            if ready == len(self._actors) > 0:
                return
        if not self.members:
            raise MisuseError(self._why_none(seconds))

    def _why_none(self, seconds: float) -> str:
        text = f"no member of the fleet has {self.device}: "
        if self._reasons:
            return text + "; ".join(f"{name}: {reason}" for name, reason in self._reasons.items())
        if self._actors:
            return text + f"{', '.join(self._actors)} did not start within {seconds:.0f} s; is another job using them?"
        backend = self.cluster.backend
        return text + (f"no node offers the resource seqtune_{backend}; start nodes with ray start --resources "
                       f"'{{\"seqtune_{backend}\": 1}}'")

    def _look(self) -> None:
        """Start an actor for each device without one, at most every `look_seconds`."""
        if time.monotonic() - self._looked < self._look_seconds:
            return
        self._looked = time.monotonic()
        offers = self.cluster.offers()
        for offer in offers:
            taken = sum(actor.node == offer.node for actor in self._actors.values()) + self._refusals[offer.node]
            for name in islice(_free(offer, self.device, set(self._actors)), max(0, offer.count - taken)):
                if self._starts.get(name, 0) < MOST_STARTS:
                    self._start_actor(name, offer)

    def _start_actor(self, name: str, offer: Offer) -> None:
        """Start the actor of a device."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        resources = dict(offer.resources)
        gpus = resources.pop("GPU", 0.0)
        try:
            handle = self._actor_class.options(
                name=name, namespace=NAMESPACE, num_cpus=0, num_gpus=gpus, resources=resources,
                max_concurrency=CALLS, max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(offer.node, soft=False),
            ).remote(name, self._greeting)
        except ValueError:  # its name is taken: by a fleet of another driver, or by a process that is ending
            return
        self._starts[name] = self._starts.get(name, 0) + 1
        self._actors[name] = MemberActor(name, offer.node, handle, handle.describe.remote())

    def _receive(self, seconds: float) -> None:
        """Turn the answers that have come into events."""
        calls = {actor.call: actor for actor in self._actors.values()}
        if not calls or self.cluster.is_silent:
            time.sleep(min(seconds, 0.5))
            return
        ray = self.cluster.ray
        try:
            ready, _ = ray.wait(list(calls), num_returns=1, timeout=seconds)
            if ready and len(calls) > 1:
                ready, _ = ray.wait(list(calls), num_returns=len(calls), timeout=0)
        except Exception as error:  # Ray raises many types; each means that the cluster is gone
            raise self.cluster.lost(_cause(error)) from None
        for call in ready:
            actor = calls[call]
            try:
                content = json.loads(ray.get(call))
                events = self._described(actor, content) if actor.member is None else _reported(actor, content)
                self._events += list(events)  # all of them, or none if one is damaged
                actor.call = actor.handle.events.remote(POLL_SECONDS)
            except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError,
                    FormatError) as error:
                self._leave(actor, f"it answers damaged messages ({one_line(error, 60)})")
            except _Refused as refusal:
                self._refusals[actor.node] += 1
                self._leave(actor, one_line(refusal))
            except Exception as error:  # Ray's: the actor or its node is gone
                self._leave(actor, _cause(error))

    def _described(self, actor: MemberActor, content: dict[str, Any]) -> Iterator[Event]:
        """The first answer of a member: who it is, or why it is refused."""
        if "refused" in content:
            raise _Refused(str(content["refused"]))
        actor.member, actor.sizes = Member.from_json(content["member"]), {}
        if actor.member.name != actor.name:
            raise FormatError("it gives another name")
        yield Joined(actor.member)

    def _leave(self, actor: MemberActor, reason: str) -> None:
        del self._actors[actor.name]
        self._end(actor)
        if actor.member is None:
            self._reasons[actor.name] = reason
        self._events.append(Left(actor.name, reason))

    def _end(self, actor: MemberActor) -> None:
        """End an actor and, with it, its worker. Without its head, Ray would wait for it; the nodes end it later."""
        if self.cluster.is_gone:
            return
        with suppress(Exception):  # Ray's: it is gone
            self.cluster.ray.kill(actor.handle)


class _Refused(SeqtuneError):
    """A member does not take part."""


def _free(offer: Offer, device: str, used: Set[str]) -> Iterator[str]:
    """Names of members of a host that are not in use: host/device, then host/device#2, and so on."""
    numbered = (f"{offer.host}/{device}" + (f"#{number}" if number > 1 else "") for number in count(1))
    return (name for name in numbered if name not in used)


def _reported(actor: MemberActor, content: object) -> Iterator[Event]:
    """The events of a member, checked: batches that it has, and indices within them."""
    assert isinstance(content, list)
    assert actor.sizes is not None
    for message in content:
        if "finished" in message:
            number = int(message["finished"])
            del actor.sizes[number]
            yield Finished(actor.name, number, one_line(str(message["error"])), Load.from_json(message["load"]))
        else:
            number, index = int(message["answered"]), int(message["index"])
            if not 0 <= index < actor.sizes[number]:
                raise FormatError("an index outside its batch")
            yield Answered(actor.name, number, index, Measurement.from_json(message["measurement"]))


def _cause(error: Exception) -> str:
    """Why a call to an actor failed, in one line."""
    if isinstance(error, SeqtuneError):
        return one_line(error)
    kind = type(error).__name__
    cause = getattr(error, "cause", None)
    if isinstance(cause, Exception):
        return one_line(f"{type(cause).__name__}: {cause}")
    return {"ActorDiedError": "its process or its node is gone", "ActorUnavailableError": "it cannot be reached",
            "NodeDiedError": "its node is gone"}.get(kind, one_line(f"{kind}: {error}", 160))
