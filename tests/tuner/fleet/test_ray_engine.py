"""Tuning on Ray: two nodes of one machine, a member whose process is killed, and Ctrl-C. Skipped without Ray."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

import seqtune
from seqtune.data.journal import Journal
from tests.support.fleet.ray_runs import PROBLEM, SEED, TRIALS
from tests.support.paths import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (the extra `fleet`)"),
]
SECONDS = 300  # of a program; on a quiet machine it takes 20

MARK = "SEQTUNE_TEST_OF_RAY"


def processes(mark: str) -> Iterator[psutil.Process]:
    """The processes that a program with this mark in its environment has left."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def answer_of(program: str, journal: Path) -> tuple[dict[str, Any], str]:
    """Run a program; return its answer and its standard error. No process of it may be left."""
    mark = uuid.uuid4().hex
    done = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "tests.support.fleet.ray_runs", program, str(journal)], cwd=ROOT,
        env={**os.environ, MARK: mark}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True)
    try:
        out, errors = done.communicate(timeout=SECONDS)
        assert out, errors
        psutil.wait_procs(list(processes(mark)), timeout=10)
        assert [process.cmdline() for process in processes(mark)] == []
    finally:
        for process in processes(mark):
            with suppress(psutil.Error):
                process.kill()
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer, errors


def trials(journal: Path) -> set[tuple[str, ...]]:
    """The trials of a journal without their times. Finals are left out: times decide who takes part."""
    with Journal(journal) as records:
        return {(record.problem.key, record.device, str(record.configuration), record.measurement.status.value,
                 record.run, record.machine) for record in records.records() if record.run != "final"}


def test_two_nodes_make_the_records_of_one_machine_though_a_member_is_killed(tmp_path: Path) -> None:
    answer, _ = answer_of("nodes", tmp_path / "fleet.sqlite")
    assert answer["trials"] == TRIALS
    assert len(set(answer["joined"])) == 2
    assert [name in answer["joined"] for name, _ in answer["left"]] == [True]
    assert "is gone" in answer["left"][0][1]
    assert answer["connected"]  # the connection was the caller's, and stayed
    seqtune.tune(PROBLEM, "llvm:0", strategy="random", trials=TRIALS, seed=SEED, journal=tmp_path / "alone.sqlite")
    assert trials(tmp_path / "fleet.sqlite") == trials(tmp_path / "alone.sqlite")


def test_ctrl_c_writes_what_was_measured_and_leaves_no_process(tmp_path: Path) -> None:
    answer, errors = answer_of("interrupted", tmp_path / "fleet.sqlite")
    assert answer["code"] == 1
    assert "run again to resume" in errors.splitlines()[-1]
    assert len(trials(tmp_path / "fleet.sqlite")) > 0
