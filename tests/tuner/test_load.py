"""The load of the machine, by counters that are made up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from seqtune.tuner import load
from seqtune.tuner.load import Load, LoadMeter

MEASURE: Callable[[LoadMeter], Load] = LoadMeter.load  # before the fixture that makes all tests quiet replaces it


@pytest.mark.parametrize(("busy", "own", "stolen", "heavy"), [
    (1.0, 1.0, 0.0, False), (1.02, 1.0, 0.0, False), (1.5, 1.0, 0.0, True), (0.5, 0.9, 0.0, False),
    (0.1, 0.1, 0.05, True)])
def test_work_of_others_and_stolen_time_make_a_load(busy: float, own: float, stolen: float, heavy: bool,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted are seconds of all CPUs, here as parts of one second of each."""
    cores = os.cpu_count() or 1
    monkeypatch.setattr(load, "_busy_and_stolen", lambda: (5.0, 1.0))
    monkeypatch.setattr(load, "_own_seconds", lambda: 2.0)
    monkeypatch.setattr("time.monotonic", lambda: 10.0)
    meter = LoadMeter()
    monkeypatch.setattr(load, "_busy_and_stolen", lambda: (5.0 + busy * cores, 1.0 + stolen * cores))
    monkeypatch.setattr(load, "_own_seconds", lambda: 2.0 + own * cores)
    monkeypatch.setattr("time.monotonic", lambda: 11.0)
    measured = MEASURE(meter)
    assert measured.others == pytest.approx(max(0.0, busy - own))
    assert measured.stolen == pytest.approx(stolen)
    assert measured.heavy == heavy
    monkeypatch.setattr("time.monotonic", lambda: 10.1)
    assert MEASURE(meter) == Load(), "too short to tell"


def test_the_counters_of_this_system_grow() -> None:
    busy, own, began = load._busy_and_stolen()[0], load._own_seconds(), time.process_time()
    while time.process_time() - began < 0.05:  # the system counts in hundredths
        sum(range(1000))
    assert load._busy_and_stolen()[0] >= busy
    assert load._own_seconds() > own > 0
