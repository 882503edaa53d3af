"""The memory check: Oclgrind's messages are read, and races and stray accesses are named by their lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from seqtune.__main__ import main
from seqtune.tuner.memory_check.check import Stray, library, strays
from tests.support.libraries.stencil import STENCIL, write
from tests.support.paths import ROOT

LIBRARY = """name = "sums"
[operations.reversed]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
rules = {"n % 8 == 0" = "whole groups"}
[kernels.groups]
parameters = {deed = [0, 1, 2, 3]}
[kernels.groups.opencl]
source = "groups.cl"
entry = "groups"
arguments = ["x", "y"]
global = ["n"]
local = ["8"]
"""
SOURCE = """__kernel void groups(__global const float *x, __global float *y) {
    __local float part[8];
    int i = get_global_id(0), l = get_local_id(0);
    part[l] = x[i];
    if (deed != 1) barrier(CLK_LOCAL_MEM_FENCE);
    y[i + (deed == 2)] = part[7 - l];
    if (deed == 3 && l < 4)
        barrier(CLK_LOCAL_MEM_FENCE);
}
"""
LOG = """
Invalid write of size 4 at global memory address 0x2000000000020
\tKernel: sums
\tEntity: Global(7,0,0) Local(7,0,0) Group(0,0,0)
\t  store float %5, float addrspace(1)* %arrayidx8, align 4, !dbg !45
\tAt line 6 (column 24) of /folder/race.cl:
\t  y[i] = 0;

Read-write data race at local memory address 0x100000000000c
\tKernel: sums
\t
\tFirst entity:  Global(4,0,0) Local(4,0,0) Group(0,0,0)
\tAt line 6 (column 26) of race.cl:
\t
\tSecond entity: Global(3,0,0) Local(3,0,0) Group(0,0,0)
\tAt line 4 (column 13) of race.cl:

Work-group divergence detected (barrier):
"""


def test_messages_are_read_with_their_lines() -> None:
    assert list(strays(LOG)) == [
        Stray("Invalid write of size 4 at global memory", "race.cl:6"),
        Stray("Read-write data race at local memory", "race.cl:4 and race.cl:6"),
        Stray("Work-group divergence detected (barrier)", "")]
    assert list(strays("kernel text\n")) == []


def test_without_the_simulator_the_command_says_how_to_get_it(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OCLGRIND_LIBRARY", str(tmp_path / "nowhere"))
    path = write(tmp_path, STENCIL)
    assert main(["kernels", str(path), "--check-memory"]) == 1
    assert "apt install oclgrind" in capsys.readouterr().err
    assert main(["kernels", "--check-memory"]) == 2
    assert "name its file" in capsys.readouterr().err


@pytest.mark.skipif(library() is None, reason="Oclgrind is not installed")
def test_races_stray_writes_and_divergence_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "groups.cl").write_text(SOURCE)
    path = write(tmp_path, LIBRARY)
    assert main(["kernels", str(path), "--check-memory", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    found = {(finding["line"], finding["message"], finding["configuration"]) for finding in report["findings"]}
    assert found == {
        ("groups.cl:4 and groups.cl:6", "Read-write data race at local memory", "deed=1"),
        ("groups.cl:6", "Invalid write of size 4 at global memory", "deed=2"),
        ("groups.cl:8", "Work-group divergence detected (barrier)", "deed=3")}
    path.write_text(LIBRARY.replace("[0, 1, 2, 3]", "[0]"))
    assert main(["kernels", str(path), "--check-memory", "--sample", "2"]) == 0
    assert "0 findings" in capsys.readouterr().out


def _runs(process: psutil.Process) -> bool:
    """Whether a process has not ended. If this process has adopted it, its entry stays until it is waited for."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.skipif(library() is None or sys.platform != "linux", reason="no Oclgrind, or not Linux")
def test_a_kill_leaves_neither_files_nor_a_simulator_behind(tmp_path: Path) -> None:
    (tmp_path / "groups.cl").write_text(SOURCE.replace("int i", "for (volatile int k = 0; deed == 0; k++) ; int i"))
    path, temporary = write(tmp_path, LIBRARY), tmp_path / "temporary"
    temporary.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "seqtune", "kernels", str(path), "--check-memory"], cwd=ROOT, stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)})
    simulators: list[psutil.Process] = []
    deadline = time.monotonic() + 300  # on a busy machine
    while not any("oclgrind" in loaded.path for simulator in simulators for loaded in simulator.memory_maps()) and (
            time.monotonic() < deadline):
        time.sleep(0.02)
        simulators = psutil.Process(process.pid).children()
    process.kill()
    process.wait()
    while any(map(_runs, simulators)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert simulators
    assert not any(map(_runs, simulators))
    assert list(temporary.iterdir()) == []
