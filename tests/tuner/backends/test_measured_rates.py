"""Rates are kept for good if no other program ran while they were measured, by a load and a clock that are made up."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from seqtune.api import devices
from seqtune.errors import SeqtuneWarning
from seqtune.tuner.backends import measured_rates, turns, watch
from seqtune.tuner.backends.measured_rates import DISTURBED, MINUTES, WATCHED, cached_rates, doubt
from seqtune.tuner.load import SHORTEST, Load, LoadMeter

QUIET, BUSY, STEALING = Load(0.02), Load(0.6), Load(stolen=0.3)


class Machine:
    """A machine whose load is given for each measurement in turn, the last one for all further ones."""

    def __init__(self, folder: Path, *loads: Load) -> None:
        self.path, self.loads = folder / "rates.json", list(loads)
        self.measured, self.now, self.slept = 0, 1e9, list[float]()

    def restart(self) -> None:
        """Begin a new process."""
        measured_rates._disturbed.clear()

    def rates(self, key: str = "key") -> float:
        """The rate under a key: as many as there were measurements when it was measured."""
        return cached_rates(self.path.name, key, float, self._measure)

    def _measure(self) -> float:
        self.measured += 1
        return float(self.measured)

    def load(self) -> Load:
        return self.loads[min(self.measured, len(self.loads)) - 1]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    """A maker of machines."""
    def make(*loads: Load) -> Machine:
        machine = Machine(tmp_path, *loads)
        monkeypatch.setattr(measured_rates, "user_cache_dir", lambda _: str(tmp_path))
        monkeypatch.setattr(measured_rates, "_disturbed", {})
        monkeypatch.setattr(LoadMeter, "load", lambda meter: machine.load())
        monkeypatch.setattr("time.time", lambda: machine.now)
        monkeypatch.setattr(watch, "busy", lambda: machine.load().heavy)
        monkeypatch.setattr(watch, "watched", lambda measure, attempts: WATCH(measure, attempts, machine.slept.append))
        return machine
    return make


WATCH = watch.watched


def test_rates_of_a_quiet_machine_are_measured_once_and_kept(machine: Callable[..., Machine]) -> None:
    quiet = machine(QUIET)
    assert (quiet.rates(), quiet.rates()) == (1.0, 1.0)
    quiet.now += 1e8
    quiet.restart()
    assert quiet.rates() == 1.0
    assert doubt() is None
    assert quiet.slept == []


def test_a_disturbance_that_ends_is_measured_away(machine: Callable[..., Machine]) -> None:
    recovering = machine(BUSY, QUIET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert recovering.rates() == 2.0
    assert json.loads(recovering.path.read_text()) == {"key" + WATCHED: 2.0}
    assert len(recovering.slept) == 1, "it waits before it measures again"


@pytest.mark.parametrize("load", [BUSY, STEALING])
def test_rates_of_a_busy_machine_serve_for_minutes_and_say_so_once(machine: Callable[..., Machine],
                                                                   load: Load) -> None:
    busy = machine(Load(0.8), load, Load(0.9))
    with pytest.warns(SeqtuneWarning, match="measured while other processes had") as caught:
        rates = busy.rates(), busy.rates("other")
    assert rates == (2.0, 4.0), "the least disturbed of three attempts, and one attempt for the next device"
    assert len(caught) == 1
    assert str(doubt()).startswith("rates of 2 devices were measured while other processes had")
    assert WATCHED not in busy.path.read_text()
    busy.restart()
    with pytest.warns(SeqtuneWarning):
        assert busy.rates() == 2.0, "another process of the next minutes does not measure again"
    busy.now += 60 * MINUTES
    busy.restart()
    with pytest.warns(SeqtuneWarning):
        assert busy.rates() == 5.0


def test_a_machine_that_became_quiet_measures_again_at_once_and_forgets_what_was_disturbed(
        machine: Callable[..., Machine]) -> None:
    recovering = machine(BUSY, BUSY, BUSY, QUIET)
    with pytest.warns(SeqtuneWarning):
        recovering.rates()
    recovering.measured += 1  # the load of now is the quiet one
    recovering.restart()
    assert recovering.rates() == 5.0
    assert doubt() is None
    assert json.loads(recovering.path.read_text()) == {"key" + WATCHED: 5.0}


def test_rates_that_an_earlier_version_kept_are_measured_again(machine: Callable[..., Machine]) -> None:
    quiet = machine(QUIET)
    quiet.path.write_text(json.dumps({"key": 37.4}))
    assert quiet.rates() == 1.0
    assert json.loads(quiet.path.read_text()) == {"key": 37.4, "key" + WATCHED: 1.0}, "for earlier versions"


@pytest.mark.parametrize("entry", [
    7.0, {"rates": 7.0}, {"rates": 7.0, "measured_at": 1e9, "others": "many", "stolen": 0.0},
    {"rates": 7.0, "measured_at": 2e9, "others": 0.6, "stolen": 0.0}])
def test_a_damaged_entry_or_one_of_the_future_is_not_used(machine: Callable[..., Machine], entry: object) -> None:
    quiet = machine(QUIET)
    quiet.path.write_text(json.dumps({"key" + DISTURBED: entry}))
    assert quiet.rates() == 1.0
    assert DISTURBED not in quiet.path.read_text()


@pytest.mark.parametrize("load", [QUIET, BUSY, STEALING])
def test_a_glance_tells_whether_the_machine_is_busy(monkeypatch: pytest.MonkeyPatch, load: Load) -> None:
    slept: list[float] = []
    monkeypatch.setattr(LoadMeter, "load", lambda meter: load if slept else Load())
    assert watch.busy(slept.append) == load.heavy
    assert slept == [watch.GLANCE]
    assert watch.GLANCE > SHORTEST


def test_turns_go_on_until_the_best_agree_or_the_time_is_over() -> None:
    values, now = iter([5.0, 9.0, 4.0, 6.0, 4.1, 4.0]), [0.0]

    def turn() -> dict[str, float]:
        now[0] += 1.0
        return {"kernel": next(values)}

    def agree(taken: object) -> bool:
        assert isinstance(taken, list)
        return turns.best_agree([turn["kernel"] for turn in taken], 0.05)

    assert len(turns.in_turns(turn, agree, 3, 60.0, lambda: now[0], lambda seconds: None)) == 5
    values = iter([5.0, 9.0, 4.0, 6.0, 8.0])
    assert len(turns.in_turns(turn, agree, 3, 3.5, lambda: now[0], lambda seconds: None)) == 4
    assert turns.best_agree([5.0, 9.8, 10.0], 0.05, largest=True)


def test_devices_say_that_their_rates_were_disturbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.backends.discovery.devices", list)
    assert "doubt" in devices().to_json()
    monkeypatch.setattr(measured_rates, "_disturbed", {"key": BUSY})
    assert devices().doubt == ("rates of 1 device were measured while other processes had 60% of the CPUs; they are "
                               "measured again once the machine is quiet")


def test_rates_of_a_cpu_are_measured_again_where_its_caches_differ(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines of one model may share a home folder."""
    from seqtune.tuner.backends.llvm import facts

    asked: list[str] = []

    def cached(file: str, key: str, read: object, measure: object) -> dict[str, float]:
        asked.append(key)
        return {}

    monkeypatch.setattr(facts, "cached_rates", cached)
    for second in (1 << 18, 1 << 20, 1 << 18):
        monkeypatch.setattr(facts, "caches", lambda second=second: {1: 1 << 15, 2: second, 3: 0})
        facts.measured_rates("sse", 1)
    assert asked[0] != asked[1]
    assert asked[0] == asked[2]
