"""A driver that was killed remembers the controls of its members, and accepts no lie that began meanwhile."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.errors import FormatError, SeqtuneError
from seqtune.tuner.fleet.control import probe
from seqtune.tuner.fleet.member_state import MemberPhase
from seqtune.tuner.fleet.reference_memory import OLDEST, SUFFIX, ReferenceMemory
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.plan import Budget
from tests.support.fleet.engine import DriverKilled, SimulatedEngine
from tests.support.fleet.fault import FaultKind, SimulatedFault
from tests.support.fleet.simulated import DEVICE, members, plan_of, problems, seconds, untrue


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.fleet.control.BLOCK_SECONDS", 10.0)


def run_twice(folder: Path, count: int, liars: Sequence[int],
              later: float = 60.0) -> tuple[list[MemberPhase], bool]:
    """Kill the driver of `count` members, some of which lie afterwards; return the states and whether all is true."""
    with Journal(folder / "journal") as journal:
        with pytest.raises(DriverKilled):
            list(run_of(SimulatedEngine(members(count), seconds, cost=0.2, driver_ends=25.0), journal, 0.0).results())
        assert len(list(journal.records()))
        faults = [SimulatedFault(FaultKind.LYING, members(count)[number].name, 0.0, factor=1.5) for number in liars]
        run = run_of(SimulatedEngine(members(count), seconds, faults, 0.2), journal, later)
        try:
            assert len(list(run.results())) == 10
        finally:
            true = not untrue(list(journal.records()), [DEVICE])
        return [member.phase for member in run.progress().members], true


def run_of(engine: SimulatedEngine, journal: Journal, later: float) -> FleetRun:
    return FleetRun(plan_of(problems(10), Budget(trials=100)), engine, journal, wall=lambda: 1.8e9 + later)


def test_a_restarted_driver_does_not_trust_a_member_that_has_begun_to_lie(tmp_path: Path) -> None:
    states, true = run_twice(tmp_path, 2, [1])
    assert true
    assert states == [MemberPhase.WAITING, MemberPhase.EXCLUDED]


def test_a_sole_member_that_has_changed_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SeqtuneError, match=r"s in an earlier run; if its machine was changed, remove .*controls\.json"):
        run_twice(tmp_path, 1, [0])
    with Journal(tmp_path / "journal") as journal:
        assert not untrue(list(journal.records()), [DEVICE])


def test_members_that_have_changed_alike_are_trusted(tmp_path: Path) -> None:
    states, true = run_twice(tmp_path, 4, [0, 1, 2, 3])
    assert states == [MemberPhase.WAITING] * 4
    assert not true


def test_half_of_a_group_that_has_changed_is_not_trusted(tmp_path: Path) -> None:
    states, true = run_twice(tmp_path, 4, [0, 1])
    assert states == [MemberPhase.EXCLUDED] * 2 + [MemberPhase.WAITING] * 2
    assert true


def test_references_are_kept_by_device_and_control_and_do_not_creep(tmp_path: Path) -> None:
    control = probe(DEVICE, plan_of(problems(1)))
    assert control is not None
    clock, engine = [1e9], [5.0]
    first, second, third = members(3)
    memory = ReferenceMemory(tmp_path / "journal", lambda: clock[0], lambda: engine[0])
    for number in range(5):
        memory.confirm(first, control, 1.0 + 0.1 * number)
    assert memory.seconds(first, control) == pytest.approx(1.3)  # 1.0 held until one differed by more than 20 %
    memory.confirm(second, control, 2.0)
    memory.save()
    again = ReferenceMemory(tmp_path / "journal", lambda: clock[0], lambda: engine[0])
    assert [again.seconds(member, control) for member in (first, second, third)] == [pytest.approx(1.3), 2.0, None]
    assert again.seconds(first, replace(control, kernel_version=99)) is None
    assert again.seconds(replace(first, device=replace(DEVICE, toolchain="t2")), control) is None
    clock[0] -= 1e6  # it jumps
    assert again.seconds(second, control) == 2.0
    engine[0] += OLDEST + 1
    assert again.seconds(second, control) is None
    again.confirm(third, control, 3.0)
    again.save(at_once=True)
    kept = json.loads(again.path.read_text())["references"]
    assert [entry["seconds"] for entry in kept] == [3.0]  # old ones are forgotten


def test_a_machine_that_was_started_anew_counts_by_its_clock(tmp_path: Path) -> None:
    control = probe(DEVICE, plan_of(problems(1)))
    assert control is not None
    member, = members(1)
    memory = ReferenceMemory(tmp_path / "journal", lambda: 1e9, lambda: 1000.0, lambda: "first")
    memory.confirm(member, control, 1.0)
    memory.save()
    clock = [1e9 + 60]
    again = ReferenceMemory(tmp_path / "journal", lambda: clock[0], lambda: 2e6, lambda: "second")
    assert again.seconds(member, control) == 1.0
    clock[0] += OLDEST
    assert again.seconds(member, control) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 2, "references": []}', '{"version": 1, "references": 7}',
                                  '{"version": 1, "references": [{"host": 1}]}',
                                  json.dumps({"version": 1, "references": [dict.fromkeys(
                                      ("host", "device", "fingerprint", "toolchain", "control"), "x")
                                      | {"seconds": -1.0, "when": 1.0, "clock": 0.0}]})])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / f"journal{SUFFIX}").write_text(text)
    with pytest.raises(FormatError, match=r"cannot be read \(.*\); remove the file") as caught:
        ReferenceMemory(tmp_path / "journal", float, float)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_told_and_tried_again(tmp_path: Path) -> None:
    control = probe(DEVICE, plan_of(problems(1)))
    assert control is not None
    now = [0.0]
    memory = ReferenceMemory(tmp_path / "journal", lambda: 1e9, lambda: now[0])
    memory.confirm(members(1)[0], control, 1.0)
    memory.path.mkdir()
    memory.save()
    assert "not a regular file" in memory.fault
    memory.path.rmdir()
    memory.save()  # too early
    assert not memory.path.exists()
    now[0] = 11.0
    memory.save()
    assert memory.path.exists()
    assert not memory.fault
