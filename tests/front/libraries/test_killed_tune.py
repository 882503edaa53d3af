"""A tuning of a library's OpenCL kernel that is killed: nothing is lost, nothing is measured twice."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record, Status
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write
from tests.support.paths import ROOT

pytestmark = pytest.mark.device
LIBRARY = """name = "copies"
[operations.copies]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n"}
[kernels.strided]
parameters = {group = [4, 8], step = [1, 2, 4, 8]}
[kernels.strided.opencl]
text = '''__kernel void copies(__global const float *x, __global float *y, int n) {
    for (int i = get_global_id(0) * step; i < min(n, (int)(get_global_id(0) + 1) * step); i++) y[i] = x[i];
}'''
entry = "copies"
arguments = ["x", "y", "int n"]
groups = ["ceil_div(n, group * step)"]
local = ["group"]
"""
TRIALS = 8  # every configuration


def trials(path: Path) -> dict[str, Record]:
    """The records of the trials by their configurations."""
    with Journal(path) as journal:
        return {record.configuration.key: record for device in journal.devices().values() for record in
                journal.trial_records(parse_problem("copies n=256"), device, [kernel("copies.strided")])}


@pytest.mark.slow
def test_a_killed_tuning_of_a_library_goes_on_where_it_was(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    path, library = tmp_path / "journal.sqlite", str(write(tmp_path, LIBRARY))
    seqtune.use_library(library)  # a journal shows records of libraries in use alone
    words = ["tune", "copies n=256", "--library", library, "--device", "opencl:0", "--trials", str(TRIALS),
             "--journal", str(path), "--json"]
    with subprocess.Popen([sys.executable, "-m", "seqtune", *words], cwd=ROOT, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as process:
        while process.poll() is None and not path.exists():
            time.sleep(0.01)
        while process.poll() is None and len(trials(path)) < 2:
            time.sleep(0.05)
        process.kill()
        _, messages = process.communicate()
    before = trials(path)
    assert len(before) >= 2, messages
    assert main(words) == 0
    after = trials(path)
    assert len(after) == TRIALS
    assert {configuration: after[configuration] for configuration in before} == before
    assert {record.measurement.status for record in after.values()} == {Status.CORRECT}
