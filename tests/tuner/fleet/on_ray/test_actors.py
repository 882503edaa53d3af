"""How often the engine of Ray starts a member that does not become ready. Ray is replaced by a stand-in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seqtune.errors import MisuseError
from seqtune.tuner.fleet.on_ray import engine
from seqtune.tuner.fleet.on_ray.cluster import FleetAddress, Offer
from seqtune.tuner.fleet.on_ray.engine import RayEngine

OFFERS = [Offer("node a", "one", 2, {}), Offer("node b", "two", 1, {})]


class ActorDiedError(Exception):
    """Ray's error of the same name."""


class StandIn:
    """A cluster whose members do not become ready. `started` are the names of all that were started."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer  # of each member; None: its process has died
        self.started: list[str] = []
        self.backend, self.is_gone, self.ray = "llvm", False, self

    def offers(self) -> list[Offer]:
        return OFFERS

    def remote(self, concurrency_groups: dict[str, int]) -> Any:
        return lambda kind: SimpleNamespace(options=lambda **options: SimpleNamespace(remote=self._start))

    def _start(self, name: str, greeting: dict[str, Any]) -> Any:
        self.started.append(name)
        return SimpleNamespace(open=SimpleNamespace(remote=object))

    def wait(self, calls: list[object], **options: Any) -> tuple[list[object], list[object]]:
        return calls, []

    def get(self, call: object) -> str:
        if self.answer is None:
            raise ActorDiedError
        return self.answer

    def kill(self, actor: object) -> None:
        pass

    def close(self) -> None:
        pass


def start(stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> str:
    """Start a fleet, which looks for devices without a pause; return why it has no member."""
    monkeypatch.setattr(engine, "START_SECONDS", 1.0)
    monkeypatch.setattr(engine, "LOOK_SECONDS", 0.0)
    with pytest.raises(MisuseError) as raised:
        RayEngine(FleetAddress.parse("auto"), "llvm:0",
                  lambda address, backend: stand_in)  # type: ignore[arg-type,return-value]
    return str(raised.value)


def test_a_member_that_refuses_is_started_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn("its seqtune has other sources")
    assert start(stand_in, monkeypatch).count("its seqtune has other sources") == 3
    assert stand_in.started == ["one/llvm:0", "one/llvm:0#2", "two/llvm:0"]


def test_a_member_that_dies_at_its_start_is_started_four_times(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = StandIn(None)
    assert start(stand_in, monkeypatch).count("its process or its node is gone") == 3
    assert sorted(stand_in.started) == 4 * ["one/llvm:0"] + 4 * ["one/llvm:0#2"] + 4 * ["two/llvm:0"]
