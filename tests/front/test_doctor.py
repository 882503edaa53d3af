"""`seqtune doctor`: ten lines on whether this machine measures well, and exit code 1 where something is bad."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.api import examining
from seqtune.api.examining import BAD, GOOD, NOTE, Check
from seqtune.api.results import Devices
from seqtune.tuner.load import Load
from seqtune.tuner.machine_state import MachineState
from tests.support.command_line import Run
from tests.support.records import RECORDS, write_journal

QUIET = MachineState(4, 4, None, ("acpi-cpufreq:performance",), False, False)


def test_ten_lines_and_the_same_in_json(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(MachineState, "now", lambda: QUIET)  # in a container, a quota may be bad
    journal = str(write_journal(tmp_path / "journal.sqlite", RECORDS))
    found = run("doctor", "--journal", journal)
    assert found["passed"] is True
    assert len(found["checks"]) == 10
    assert main(["doctor", "--journal", journal]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [check["state"] for check in found["checks"]]


def test_what_is_bad_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(MachineState, "now", lambda: replace(QUIET, quota=0.5))
    assert main(["doctor", "--json", "--journal", str(tmp_path / "none" / "journal.sqlite")]) == 1
    shown = json.loads(capsys.readouterr().out)
    bad = {check["name"]: check for check in shown["checks"] if check["state"] == BAD}
    assert bad.keys() == {"quota", "journal"}
    assert "gives 0.5 CPUs' time to 4 CPUs" in bad["quota"]["found"]
    assert all(check["advice"] for check in bad.values())
    assert shown["passed"] is False
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("check", "state", "says"), [
    (examining.cores(QUIET), GOOD, "4 usable CPUs on 4 cores"),
    (examining.cores(replace(QUIET, cores=2)), NOTE, "4 usable CPUs on 2 cores"),
    (examining.quota(replace(QUIET, quota=8.0)), GOOD, "no limit"),
    (examining.clock(QUIET), GOOD, "performance"),
    (examining.clock(replace(QUIET, governors=())), GOOD, "does not show"),
    (examining.clock(replace(QUIET, governors=("acpi-cpufreq:powersave",))), BAD, "powersave"),
    (examining.clock(replace(QUIET, on_battery=True)), BAD, "on battery"),
    (examining.busy(Load(0.01)), GOOD, "1% of the CPUs"), (examining.busy(Load(0.7)), BAD, "70% of the CPUs"),
    (examining.llvm(Devices((), {"llvm": "no LLVM"})), BAD, "no LLVM"),
    (examining.opencl(Devices((), {"opencl": "`ld` is missing"})), NOTE, "`ld` is missing"),
    (examining.compiled_code(), GOOD, "LLVM")])
def test_each_state_says_what_was_found(check: Check, state: str, says: str) -> None:
    assert check.state == state
    assert says in check.found
    assert bool(check.advice) is (state != GOOD)


def test_a_journal_of_another_program_is_bad_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(200))
    check = examining.journal_file(path)
    assert (check.state, "not a journal" in check.found) == (BAD, True)
    assert os.listdir(tmp_path) == ["journal.sqlite"]
