"""Contract of every door where other software asks: all processes propose the same, as the ranks of a job need it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.doors import DOORS
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT

GROUPS = {packages: [name for name in DOORS if DOORS[name][1] == packages] for _, packages in DOORS.values()}


@pytest.mark.parametrize("packages", GROUPS, ids="+".join)
def test_two_processes_propose_the_same(packages: tuple[str, ...]) -> None:
    skip_without(*packages)
    command = [sys.executable, "-W", "ignore", "-m", "tests.support.doors", *GROUPS[packages]]
    answers = [subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": seed})
               for seed in ("1", "2")]
    assert [answer.returncode for answer in answers] == [0, 0], answers[0].stderr[-2000:]
    first, again = (json.loads(answer.stdout) for answer in answers)
    assert all(first.values())
    assert again == first
