"""Rates are kept for good if no other program ran while they were measured, by a load and a clock that are made up."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from seqtune.errors import SeqtuneWarning
from seqtune.tuner.backends.measured_rates import DISTURBED, GLANCE, MINUTES, WATCHED, RateCache
from seqtune.tuner.load import SHORTEST, Load, LoadMeter

QUIET, BUSY, STEALING = Load(0.02), Load(0.6), Load(stolen=0.3)


class Meter(LoadMeter):
    """A meter of a made-up load."""

    def __init__(self, load: Callable[[], Load]) -> None:
        self.load = load  # type: ignore[method-assign]


class Machine:
    """A machine whose load is given for each measurement in turn, the last one for all further ones."""

    def __init__(self, folder: Path, *loads: Load) -> None:
        self.path, self.loads = folder / "rates.json", list(loads)
        self.measured, self.now, self.slept = 0, 1e9, list[float]()
        self.restart()

    def restart(self) -> None:
        """Begin a new process."""
        self.cache = RateCache(self.path.parent, clock=lambda: self.now, sleep=self.slept.append,
                               open_meter=lambda: Meter(self._load))

    def rates(self, key: str = "key") -> float:
        """The rate under a key: as many as there were measurements when it was measured."""
        return self.cache.rates(self.path.name, key, float, self._measure)

    def _measure(self) -> float:
        self.measured += 1
        return float(self.measured)

    def _load(self) -> Load:
        return self.loads[min(self.measured, len(self.loads)) - 1]


@pytest.fixture
def machine(tmp_path: Path) -> Callable[..., Machine]:
    """A maker of machines."""
    return lambda *loads: Machine(tmp_path, *loads)


def test_rates_of_a_quiet_machine_are_measured_once_and_kept(machine: Callable[..., Machine]) -> None:
    quiet = machine(QUIET)
    assert (quiet.rates(), quiet.rates()) == (1.0, 1.0)
    quiet.now += 1e8
    quiet.restart()
    assert quiet.rates() == 1.0
    assert quiet.cache.doubt() is None
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
    assert (busy.rates(), busy.rates("other")) == (2.0, 4.0), (
        "the least disturbed of three attempts, and one attempt for the next device")
    with pytest.warns(SeqtuneWarning, match="measured while other processes had .* run `seqtune doctor`") as caught:
        busy.cache.warn()
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name], "at the line that asked"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        busy.cache.warn()
    assert str(busy.cache.doubt()).startswith("rates of 2 devices were measured while other processes had")
    assert WATCHED not in busy.path.read_text()
    busy.restart()
    assert busy.rates() == 2.0, "another process of the next minutes does not measure again"
    assert busy.cache.disturbed
    busy.now += 60 * MINUTES
    busy.restart()
    assert busy.rates() == 5.0


@pytest.mark.parametrize("entry", [
    7.0, {"rates": 7.0}, {"rates": 7.0, "measured_at": 1e9, "others": "many", "stolen": 0.0},
    {"rates": 7.0, "measured_at": 2e9, "others": 0.6, "stolen": 0.0}])
def test_a_damaged_entry_or_one_of_the_future_is_not_used(machine: Callable[..., Machine], entry: object) -> None:
    quiet = machine(QUIET)
    quiet.path.write_text(json.dumps({"key" + DISTURBED: entry}))
    assert quiet.rates() == 1.0
    assert DISTURBED not in quiet.path.read_text()


@pytest.mark.parametrize("load", [QUIET, BUSY, STEALING])
def test_disturbed_rates_are_used_after_a_glance_at_a_machine_that_is_still_busy(tmp_path: Path, load: Load) -> None:
    entry = {"rates": 7.0, "measured_at": 1e9, "others": 0.6, "stolen": 0.0}
    (tmp_path / "rates.json").write_text(json.dumps({"key" + DISTURBED: entry}))
    slept: list[float] = []
    cache = RateCache(tmp_path, clock=lambda: 1e9, sleep=slept.append,
                      open_meter=lambda: Meter(lambda: load if slept else Load()))
    assert cache.rates("rates.json", "key", float, lambda: 8.0) == (7.0 if load.heavy else 8.0)
    assert slept[0] == GLANCE > SHORTEST


def test_rates_of_a_cpu_are_measured_again_where_its_caches_differ(tmp_path: Path) -> None:
    """Machines of one model may share a home folder."""
    from seqtune.kernels.devices.device import MEASURED
    from seqtune.tuner.backends.llvm.facts import measured_rates

    machine, measured = Machine(tmp_path, QUIET), list[int]()

    def measure(instruction_set: str, threads: int, sizes: Mapping[int, int]) -> dict[str, float]:
        measured.append(sizes[2])
        return dict.fromkeys(MEASURED, float(sizes[2]))

    for second in (1 << 18, 1 << 20, 1 << 18):
        rates = measured_rates("sse", 1, machine.cache, measure, {1: 1 << 15, 2: second, 3: 0})
        assert rates == dict.fromkeys(MEASURED, float(second))
    assert measured == [1 << 18, 1 << 20]
