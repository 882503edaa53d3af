"""Steps touch no memory beside their views: a process of its own runs them between pages without access."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")
def test_steps_stay_inside_their_views() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.support.steps.guarded_steps"], cwd=ROOT, capture_output=True,
                         text=True, timeout=300, check=False)
    assert run.stdout.endswith("done\n"), run.stdout[-300:] + run.stderr[-1000:]
