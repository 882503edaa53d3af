"""Contract of every door where other software asks: all processes propose the same, as the ranks of a job need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from seqtune.errors import is_installed
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from tests.support.doors import DOORS, answers_of
from tests.support.installation.optional import skip_without
from tests.support.learning.shipped_gpu import ship_random
from tests.support.paths import ROOT

NAMES = [name for name, (_, packages) in DOORS.items() if all(map(is_installed, packages))]


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, object]:
    """What all doors propose in another process, whose sets have another order and whose BLAS has two threads."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.support.doors", *NAMES], cwd=ROOT, check=False,
                          capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONHASHSEED": "1", "OPENBLAS_NUM_THREADS": "2"})
    assert done.returncode == 0, done.stderr[-2000:]
    answers: dict[str, object] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", DOORS)
def test_another_process_proposes_the_same(name: str, request: pytest.FixtureRequest) -> None:
    skip_without(*DOORS[name][1])
    here = json.loads(json.dumps(answers_of([name])[name]))
    assert here
    assert request.getfixturevalue("elsewhere")[name] == here


@pytest.mark.parametrize("name", DOORS)
def test_every_door_asks_the_checkpoint_that_is_shipped_for_gpus(
        name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without(*DOORS[name][1])
    ship_random(tmp_path, monkeypatch)
    asked: list[str] = []
    propose = Checkpoint.propose

    def counted(self: Checkpoint, tasks: Sequence[Task], *given: Any) -> Any:
        asked.extend(task.kernels[0].name for task in tasks)
        return propose(self, tasks, *given)

    monkeypatch.setattr(Checkpoint, "propose", counted)
    assert DOORS[name][0]()
    assert asked
    assert all(each.startswith("triton.") for each in asked)
