"""Tuning on Ray: nodes and processes that are lost, signals, and a driver that is killed. Skipped without Ray."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import seqtune
from seqtune.data.journal.journal import Journal
from tests.support.fleet.ray_runs import BLOCK, OPENCL_PROBLEM, PROBLEMS, SEED, TRIALS
from tests.support.installation.optional import needs
from tests.support.paths import ROOT

pytestmark = [pytest.mark.slow, needs("ray")]
SECONDS = 600  # of a program; on a quiet machine it takes 15, on one with ten times the work 200
MARK = "SEQTUNE_TEST_OF_RAY"
STARTS_NOT = "Ray does not start here"


def processes(mark: str) -> Iterator[psutil.Process]:
    """The processes that a program with this mark in its environment has left."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def run(folder: Path, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    """Run a program; return the objects that it prints and its standard error.

    No process and no file of it may be left, except the files of a driver that was killed.
    """
    mark = uuid.uuid4().hex
    program = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.fleet.ray_runs", *arguments], cwd=ROOT,
        env={**os.environ, MARK: mark, "TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True)
    try:
        out, errors = program.communicate(timeout=SECONDS)
        psutil.wait_procs(list(processes(mark)), timeout=60)
        assert [process.cmdline() for process in processes(mark)] == []
    finally:
        for process in processes(mark):
            with suppress(psutil.Error):
                process.kill()
    answers: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    return answers, errors


def tuned(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Run a program that tunes; a second time where Ray started too slowly, as on a busy machine.

    Skips where Ray by itself cannot be started, as in some containers.
    """
    answers, errors = run(folder, *arguments)
    if STARTS_NOT in errors or any("unavailable" in answer for answer in answers):
        bare = run(folder, "bare")[0]
        if any("unavailable" in answer for answer in bare):
            pytest.skip(f"{STARTS_NOT}: {bare[0]['unavailable']:.200}")
        answers, errors = run(folder, *arguments)
    assert answers, errors
    assert "unavailable" not in answers[-1], answers
    return answers[-1], errors


def trials(journal: Path) -> set[tuple[str, ...]]:
    """The trials of a journal without their times; each is in it once.

    Finals are left out: times decide who takes part in them, apart from the default.
    """
    with Journal(journal) as records:
        listed = list(records.records())
    keys = [(record.problem.key, record.device, str(record.configuration),
             record.measurement.status.value, record.run, record.machine) for record in listed if record.run != "final"]
    assert len(keys) == len(set(keys))
    assert {record.problem.key for record in listed if record.run == "final"} in ({key[0] for key in keys}, set())
    return set(keys)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files. Its name is short: the paths of Ray's sockets have at most 107 characters."""
    with tempfile.TemporaryDirectory(prefix="st-", dir="/tmp", ignore_cleanup_errors=True) as path:
        yield Path(path)


def test_two_nodes_make_the_records_of_one_machine_though_a_member_and_a_node_are_killed(folder: Path) -> None:
    answer, errors = tuned(folder, "nodes", str(folder / "fleet.sqlite"))
    assert answer["trials"] == [TRIALS] * len(PROBLEMS), errors
    assert len(answer["shared"]) == 2  # both had a part
    assert len(answer["lost"]) == 2
    assert set(answer["lost"]) <= {name for name, _ in answer["left"]}
    assert answer["joined"].count(answer["lost"][0]) == 2  # the member whose process died came back
    (status,) = answer["status"]
    assert status["members"] == [{"name": name, "answers": True} for name in sorted(answer["lost"])]
    assert [node["offers"] for node in status["nodes"]].count({"llvm": 1}) == 2
    assert status["run"]["total"] >= 0
    assert answer["connected"]  # the connection was the caller's, and stayed
    seqtune.tune(PROBLEMS, "llvm:0", strategy="random", trials=TRIALS, seed=SEED, journal=folder / "alone.sqlite")
    assert trials(folder / "fleet.sqlite") == trials(folder / "alone.sqlite")


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_writes_what_was_measured_and_leaves_nothing(folder: Path, name: str) -> None:
    answer, errors = tuned(folder, "stopped", str(folder / "fleet.sqlite"), name)
    assert answer["code"] == 130
    assert "run again to resume" in errors.splitlines()[-1]
    assert len(trials(folder / "fleet.sqlite")) >= BLOCK
    assert [path.name for path in folder.iterdir() if path.is_dir() and "ray" in path.name] == []


def test_a_killed_driver_leaves_no_process_and_its_command_resumes(folder: Path) -> None:
    journal = folder / "fleet.sqlite"
    assert tuned(folder, "killed", str(journal))[0]["written"] == len(trials(journal)) > 0
    answer, errors = tuned(folder, "finished", str(journal))
    assert answer["code"] == 0, errors
    assert "[" not in errors  # Ray's lines have a time in brackets
    seqtune.tune(OPENCL_PROBLEM, "opencl:0", strategy="exhaustive", seed=SEED, journal=folder / "alone.sqlite")
    assert trials(journal) == trials(folder / "alone.sqlite")
    assert Counter(run for *_, run, _ in trials(journal))["exhaustive"] == 28
