"""No llvm kernel reads or writes a byte outside its buffers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.llvm import DEVICES, needs_llvm
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


@pytest.mark.slow
@needs_llvm
def test_a_wrong_order_of_lanes_is_found_where_kernels_are_verified() -> None:
    finished = subprocess.run([sys.executable, "-m", "tests.anywhere.arm.kernels", DEVICES[0].instruction_set, "1",
                               "--plant"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, f"{finished.stdout[-500:]} {finished.stderr[-500:]}"
    verdict = json.loads(finished.stdout.splitlines()[-1])
    assert verdict["wrong"] > verdict["verified"], verdict  # a tile of one vector may hide the order
