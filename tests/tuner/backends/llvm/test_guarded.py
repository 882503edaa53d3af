"""No llvm kernel reads or writes a byte outside its buffers."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.llvm import needs_llvm
from tests.support.paths import ROOT


@pytest.mark.slow
@needs_llvm
@pytest.mark.skipif(sys.platform == "win32", reason="this system has no mprotect")
def test_no_kernel_reads_or_writes_outside_its_buffers() -> None:
    finished = subprocess.run([sys.executable, "-m", "tests.support.guarded"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    last = (finished.stdout.splitlines() or ["nothing"])[-1]
    assert finished.returncode == 0, f"{last}: {finished.returncode} {finished.stderr[-500:]}"
    assert last == "done"
