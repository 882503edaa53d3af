"""The load of the machine, by counters that are made up."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from seqtune.tuner.load import CpuSeconds, Load, LoadMeter

MEASURE: Callable[[LoadMeter], Load] = LoadMeter.load  # before the fixture that makes all tests quiet replaces it


@pytest.mark.parametrize(("busy", "own", "stolen", "heavy"), [
    (1.0, 1.0, 0.0, False), (1.02, 1.0, 0.0, False), (1.5, 1.0, 0.0, True), (0.5, 0.9, 0.0, False),
    (0.1, 0.1, 0.05, True)])
def test_work_of_others_and_stolen_time_make_a_load(busy: float, own: float, stolen: float, heavy: bool) -> None:
    """Counted are seconds of all CPUs, here as parts of one second of each."""
    cores, now = os.cpu_count() or 1, [10.0]
    counts = iter([CpuSeconds(5.0, 1.0, 2.0), CpuSeconds(5.0 + busy * cores, 1.0 + stolen * cores, 2.0 + own * cores)])
    meter = LoadMeter(lambda: next(counts), lambda: now[0])
    now[0] = 10.1
    assert MEASURE(meter) == Load(), "too short to tell"
    now[0] = 11.0
    measured = MEASURE(meter)
    assert measured.others == pytest.approx(max(0.0, busy - own))
    assert measured.stolen == pytest.approx(stolen)
    assert measured.heavy == heavy


def test_the_counters_of_this_system_grow() -> None:
    before, began = CpuSeconds.now(), time.process_time()
    while time.process_time() - began < 0.05:  # the system counts in hundredths
        sum(range(1000))
    after = CpuSeconds.now()
    assert after.busy >= before.busy
    assert after.own > before.own > 0
