"""Programs touch no memory beside their operands and results, and write all of their results."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.installation.optional import needs
from tests.support.llvm import needs_llvm
from tests.support.paths import ROOT

pytestmark = [needs("torch"), needs_llvm,
              pytest.mark.skipif(sys.platform == "win32", reason="pages are protected by mprotect")]


def test_programs_stay_inside_their_buffers_and_fill_their_results() -> None:
    run = subprocess.run([sys.executable, "-m", "tests.support.networks.guarded_programs"], cwd=ROOT,
                         capture_output=True, text=True, check=False)
    assert run.stdout.endswith("done\n"), run.stdout[-300:] + run.stderr[-1000:]
