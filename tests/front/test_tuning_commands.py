"""Tuning on the command line: journals, resuming, sets of problems."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.load import Load, LoadMeter
from tests.support.command_line import Run
from tests.support.installation.optional import TRAINING, needs
from tests.support.paths import ROOT
from tests.support.recorded_files import write_recorded


@pytest.mark.slow
@needs(*TRAINING)
@pytest.mark.usefixtures("few_trees")
def test_tuning_is_resumed_and_its_journal_becomes_a_data_set_a_checkpoint_and_a_table(
        run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal, data, made = tmp_path / "journal.sqlite", tmp_path / "data.parquet", tmp_path / "made"
    problems = tmp_path / "problems.csv"
    problems.write_text("type,m,n,k\n" + "".join(f"gemm,{m},32,16\n" for m in (8, 12, 16, 24, 32, 48, 80)))
    arguments = ["tune", "--problems", str(problems), "--trials", "6", "--seed", "3", "--journal", str(journal)]
    first = run(*arguments)
    assert [one["measured"] for one in first["results"]] == [6] * 7
    again = run(*arguments)
    assert [one["measured"] for one in again["results"]] == [0] * 7
    assert [one["best"] for one in again["results"]] == [one["best"] for one in first["results"]]

    held_out = tmp_path / "held_out.txt"
    held_out.write_text("gemm m=24 n=32 k=16\ngemm m=48 n=32 k=16\n")
    report = run("export", "--journal", journal, "--out", data, "--hold-out", held_out)
    assert report["problems"] == 7
    assert Dataset.read(data).provenance == {"journal": "journal.sqlite"}  # no name of a machine or path
    report = run("train", data, "--out", made, "--epochs", "1", "--extra", "0", "--force")  # noise or not
    assert (report["problems"], report["epochs"]) == (5, 1)
    assert {row["method"] for row in report["cross_validation"]["shares"]} >= {"seqtune", "trees", "default"}
    table = run("evaluate", data, "--checkpoint", made, "--methods", "seqtune,random,default")["rows"]
    assert {(row["method"], row["measured"]) for row in table} == {
        (method, count) for method in ("seqtune", "random", "default") for count in (0, 3, 5)}
    assert all(0 < row["share"] <= 1 and row["problems"] == 2 for row in table)
    report = run("retrain", made, data, "--rehearse", data, "--out", tmp_path / "again",
                 "--epochs", "1", "--extra", "0", "--no-scratch")
    assert {(row["records"], row["measured"]) for row in report["evaluated"]} == {
        (records, count) for records in ("new", "old") for count in (0, 3, 5)}
    assert run("predict", "gemm", "m=24", "n=32", "k=16", "--checkpoint", tmp_path / "again")["candidates"]
    assert main(["evaluate", str(data), "--checkpoint", str(made), "--methods", "default"]) == 0
    assert "share" in capsys.readouterr().out


def test_what_timed_out_is_remembered_until_it_is_to_be_tried_again(run: Run, tmp_path: Path) -> None:
    path, device, problem = tmp_path / "journal.sqlite", find("llvm:0"), Problem.make("gemm", m=1, n=1, k=1)
    space = SearchSpace(kernel("llvm.gemm"), problem, device)
    with Journal(path) as journal:
        for row, configuration in enumerate(space):
            measurement = Measurement(Status.CORRECT, (1.0,)) if row else Measurement(Status.TIMEOUT, message="late")
            journal.add(Record(problem, device.key, space.kernel.version, configuration, device.toolchain, measurement))
    arguments = ["tune", "gemm", "m=1", "n=1", "k=1", "--strategy", "exhaustive", "--journal", str(path)]
    before, = run(*arguments)["results"]
    assert (before["trials"], before["measured"], before["failed"]) == (len(space), 0, 1)
    after, = run(*arguments, "--retry-failed")["results"]
    assert (after["trials"], after["measured"], after["failed"]) == (len(space), 1, 0)


def test_problems_that_nothing_solves_are_skipped_with_the_reason(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problems = tmp_path / "problems.txt"
    problems.write_text("gemm m=8 n=8 k=8 dtype=fp16\ngemm m=8 n=8 k=8\n")
    words = ["tune", "--problems", str(problems), "--trials", "2", "--journal", str(tmp_path / "j.sqlite")]
    assert main([*words, "--json"]) == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert len(found["results"]) == 1
    assert "fp32 only" in found["skipped"][0]["reason"]
    assert said.err.splitlines()[-1] == (
        "seqtune: 1 of 2 problems could not be tuned; `skipped` and `failures` say why")


def test_ctrl_c_is_one_line_and_the_run_is_resumed(run: Run, tmp_path: Path) -> None:
    journal = tmp_path / "journal.sqlite"
    arguments = ["tune", "gemm", "m=64", "n=64", "k=64", "--strategy", "exhaustive", "--journal", str(journal)]
    process = subprocess.Popen([sys.executable, "-m", "seqtune", *arguments], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, cwd=ROOT,
                               env={**os.environ, "XDG_DATA_HOME": str(tmp_path)}, start_new_session=True)
    done = 0
    deadline = time.monotonic() + 60
    while done < 20 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
        if journal.exists():
            with Journal(journal) as kept:
                done = sum(1 for _ in kept.records())
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "gemm m=64 n=64 k=64" in out  # the best so far
    assert "stopped: the times are those of trials" in out
    assert "%" not in out  # no confidence without finals
    lines = [line for line in errors.splitlines() if line.startswith("seqtune: ")]
    assert len(lines) == 1
    assert "run again to resume" in lines[0]
    assert "Traceback" not in errors
    with Journal(journal) as kept:
        held = sum(1 for _ in kept.records())
    assert held >= 20
    found = run(*arguments[:4], "--trials", held + 5, *arguments[4:])
    assert found["results"][0]["trials"] == held + 5
    assert found["results"][0]["measured"] <= 5 + 1


def test_a_budget_that_the_journal_uses_up_is_noted(
        run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["tune", "gemm", "m=8", "n=8", "k=8", "--strategy", "random", "--journal", str(tmp_path / "j.sqlite")]
    assert "remarks" not in run(*words, "--trials", "4")
    [remark] = run(*words, "--trials", "4")["remarks"]
    assert remark == ("no new trial: the 4 trials in the journal count towards --trials 4, which they use up; a larger "
                      "number goes on")
    assert main([*words, "--trials", "4"]) == 0
    assert "no new trial: the 4 trials in the journal" in capsys.readouterr().out
    assert "remarks" not in run(*words, "--trials", "5")


def test_other_work_on_the_machine_is_noted_at_the_beginning_and_at_the_end(
        run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    loads = iter([Load(others=0.5), Load(), Load(), Load(others=0.5), Load(), Load()])
    monkeypatch.setattr(LoadMeter, "load", lambda meter: next(loads))
    words = ["tune", "gemm", "m=8", "n=8", "k=8", "--strategy", "random", "--journal", str(tmp_path / "j.sqlite")]
    assert main([*words, "--trials", "2"]) == 0
    shown = capsys.readouterr()
    assert "note: other processes had 50% of the CPUs: the times of trials will be doubtful" in shown.err
    assert "measured while other work" not in shown.out
    result = run(*words, "--trials", "4")
    assert result["loaded"] is True
    [remark] = result["remarks"]
    assert "measured while other work had much of the machine" in remark
    assert "loaded" not in run(*words, "--trials", "4"), "nothing was measured"
    monkeypatch.setattr(LoadMeter, "load", lambda meter: pytest.fail("a replay measures nothing"))
    run("tune", "recorded kernel=toy size_x=640 size_y=480", "--strategy", "random", "--trials", "1", "--replay",
        write_recorded(tmp_path / "recorded"), "--device", "fast")
