"""Contract of every door where other software asks: all processes propose the same, as the ranks of a job need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from seqtune.errors import is_installed
from tests.support.doors import DOORS, answers_of
from tests.support.installation.optional import skip_without
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
