"""Two tuners write into one journal at the same time: both end, no trial is lost, and none is there twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Status
from tests.support import planted

TRIALS = 20
SCRIPT = """
import sys
import planted
from seqtune.data.journal.journal import Journal
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

with Journal(sys.argv[1]) as journal, \\
        Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
    runner.open()
    print("ready", flush=True)
    sys.stdin.readline()
    tune(Task.of(Problem.make("gemm", m=int(sys.argv[2]), n=8, k=8), planted.DEVICE, [planted.GOOD]), journal, runner,
         Budget(trials=int(sys.argv[4])), TuningOptions(
             "random", seed=int(sys.argv[3]), finals=Finals(count=2), measuring=Options(samples=2),
             progress=lambda progress: print(progress.configuration.key, flush=True)))
"""


def start(path: Path, m: int, seed: int) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(m), str(seed), str(TRIALS)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": planted.PATH[0], "OMP_NUM_THREADS": "1"})
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.stderr and process.stderr.read()
    return process


@pytest.mark.parametrize(("problems", "seeds"), [((20, 20), (1, 1)), ((20, 24), (1, 1))],
                         ids=["same trials", "different problems"])
def test_two_tuners_share_a_journal(problems: tuple[int, int], seeds: tuple[int, int], tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    tuners = [start(path, m, seed) for m, seed in zip(problems, seeds, strict=True)]
    for tuner in tuners:
        assert tuner.stdin is not None
        tuner.stdin.write("go\n")
        tuner.stdin.flush()
    seen: set[tuple[int, str]] = set()
    for tuner, m in zip(tuners, problems, strict=True):
        output, errors = tuner.communicate(timeout=120.0)
        assert tuner.returncode == 0, errors
        keys = output.splitlines()
        assert len(set(keys)) == len(keys) == TRIALS
        seen |= {(m, key) for key in keys}
    with Journal(path) as journal:
        records = list(journal.records())
    trials = [(record.problem.size("m"), record.configuration.key) for record in records if record.run != "final"]
    assert len(trials) == len(set(trials))
    assert set(trials) == seen
    assert len([record for record in records if record.run == "final"]) >= 4  # two or three finalists of each tuner
    assert all(record.measurement.status is Status.CORRECT for record in records)
