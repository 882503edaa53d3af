"""The outcome of each fault of the driver: it is killed or interrupted, its disk is full, its clock jumps."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.errors import FormatError, InterruptedTuning, SeqtuneError
from seqtune.tuner.fleet import control
from seqtune.tuner.fleet.engine import Event
from seqtune.tuner.fleet.member_state import FleetProgress
from seqtune.tuner.fleet.run import STOP_SECONDS, FleetRun
from seqtune.tuner.run.plan import Budget
from tests.support.fleet.engine import DriverKilled, SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import DEVICE, contents, members, plan_of, problems, seconds, untrue

BUDGET = Budget(trials=100)


def run_of(engine: SimulatedEngine, journal: Journal, report: Callable[[FleetProgress], None] | None = None,
           wall: Callable[[], float] = time.time) -> FleetRun:
    """A run of the usual problems."""
    return FleetRun(plan_of(problems(8), BUDGET), engine, journal, report, wall)


class FullDisk(Journal):
    """A journal that cannot be written while `full`."""

    full = False
    refused = 0

    def add_all(self, records: Sequence[Record]) -> int:
        if self.full:
            self.refused += 1
            raise SeqtuneError(f"the journal {self.path.name} cannot be used now: database or disk is full")
        return super().add_all(records)


class Interrupting(SimulatedEngine):
    """An engine during whose waiting the user presses Ctrl-C."""

    presses: tuple[float, ...] = ()

    def wait(self, seconds: float) -> list[Event]:
        while self.presses and self.clock >= self.presses[0]:
            self.presses = self.presses[1:]
            os.kill(os.getpid(), signal.SIGINT)
        return super().wait(seconds)


def test_a_killed_driver_repeats_only_what_no_control_had_proved(tmp_path: Path,
                                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "BLOCK_SECONDS", 5.0)
    with Journal(tmp_path / "journal") as journal, Journal(tmp_path / "sound") as sound:
        killed = SimulatedEngine(members(2), seconds, driver_ends=14.0)
        with pytest.raises(DriverKilled):
            list(run_of(killed, journal).results())
        kept = len(list(journal.records()))
        assert 200 <= kept < 2 * 14 * 20
        again = SimulatedEngine(members(2), seconds)
        list(run_of(again, journal).results())
        list(run_of(SimulatedEngine(members(2), seconds), sound).results())
        assert contents(journal, "random") == contents(sound, "random")
        assert again.measured < 1.15 * (800 - kept) + 2 * 8 * 3


def test_a_full_disk_stops_the_work_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "BLOCK_SECONDS", 2.0)
    notes: set[str] = set()
    journal = FullDisk(tmp_path / "journal")
    with journal:
        engine = SimulatedEngine(members(3), seconds)

        def look(progress: FleetProgress) -> None:
            journal.full = 5 < engine.clock < 100
            notes.add(progress.note)

        run = run_of(engine, journal, look)
        list(run.results())
        assert journal.refused > 1
        assert len(list(journal.records(run="random"))) == 800
        assert run.writer.doubled == 0
        assert not untrue(list(journal.records()), [DEVICE])
        assert any("disk is full" in note for note in notes)
        assert 100 < engine.clock < 130
        assert engine.measured < 1.15 * 800  # nothing was handed out meanwhile


def test_a_disk_that_stays_full_ends_the_run_with_the_number_of_lost_measurements(tmp_path: Path) -> None:
    journal = FullDisk(tmp_path / "journal")
    with journal:
        journal.full = True
        engine = SimulatedEngine(members(1), seconds)
        with pytest.raises(SeqtuneError, match=r"disk is full \(for 600 s\); \d+ measurements are not in it"):
            list(run_of(engine, journal).results())
        assert engine.clock < 700


def test_a_journal_that_is_deleted_ends_the_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "BLOCK_SECONDS", 2.0)
    with Journal(tmp_path / "journal") as journal:
        run = run_of(SimulatedEngine(members(2), seconds), journal)
        (tmp_path / "journal").unlink()
        with pytest.raises(FormatError, match=r"was deleted or renamed; all records are saved in .*rescued-1"):
            list(run.results())


@pytest.mark.parametrize("jump", [1e9, -1e9])
def test_a_clock_that_jumps_changes_only_the_times_of_records(tmp_path: Path, jump: float) -> None:
    clock = itertools.chain(map(float, range(100)), (float(number) + jump for number in range(10_000)))
    with Journal(tmp_path / "journal") as journal, Journal(tmp_path / "sound") as sound:
        engine, usual = SimulatedEngine(members(2), seconds), SimulatedEngine(members(2), seconds)
        list(run_of(engine, journal, wall=lambda: 1.8e9 + next(clock)).results())
        list(run_of(usual, sound).results())
        assert contents(journal) == contents(sound)
        assert engine.clock == usual.clock


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_closes_the_blocks_first(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        engine = Interrupting(members(3), seconds)
        engine.presses = (6.0,)
        with pytest.raises(InterruptedTuning, match=r"stopped after \d+ trials .* all are in .*; run again to resume"):
            list(run_of(engine, journal).results())
        assert 6.0 < engine.clock < 9.0
        count = len(list(journal.records()))
        assert count > 0.8 * 3 * 5.5 * 20
        again = SimulatedEngine(members(3), seconds)
        assert len(list(run_of(again, journal).results())) == 8
        assert again.measured < 1.2 * (800 + 24 - count)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        fault = SimulatedFault(FaultKind.STALLED, "node0/test:1", 5.0, 1000.0)
        engine = Interrupting(members(1), seconds, [fault])
        engine.presses = (6.0, 8.0)
        with pytest.raises(InterruptedTuning, match=r", except \d+ whose control or writing was not awaited"):
            list(run_of(engine, journal).results())
        assert engine.clock < 9.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_does_not_wait_long_for_a_member_that_is_silent(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal") as journal:
        fault = SimulatedFault(FaultKind.STALLED, "node0/test:1", 5.0, 1000.0)
        engine = Interrupting(members(2), seconds, [fault])
        engine.presses = (6.0,)
        with pytest.raises(InterruptedTuning, match=r", except \d+ whose control"):
            list(run_of(engine, journal).results())
        assert engine.clock < 6.0 + STOP_SECONDS + 2
        assert len(list(journal.records())) > 50  # of the other member
