"""No kernel is correct that reads or writes outside a buffer on a CPU, near it or far away."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import seqtune
from seqtune.data.record import Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write
from tests.support.llvm import needs_llvm
from tests.support.paths import ROOT
from tests.support.stray_accesses import CASES, PLATFORMS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no regions without access")

RUNTIMES = ("llvm", *PLATFORMS)
TRANSPOSE = """name = "mylib"
[operations.transpose]
features = {rows = "rows of x", columns = "columns of x"}
inputs = {x = "rows, columns"}
outputs = {y = "columns, rows"}
[kernels.block]
parameters = {height = [1, 2], stray = [0, 1, 2]}
[kernels.block.opencl]
text = '''
__kernel void transpose(__global const float *x, __global float *y, int rows, int columns)
{
    const int j = get_global_id(0), top = get_global_id(1) * height, n = rows * columns;
    for (int i = top; i < min(top + height, rows); i++)
        y[j * rows + i] = x[i * columns + j];
    if (stray == 1)
        y[n + 100000] = 1.0f;
    if (stray == 2)
        y[j * rows] += 0.0f * x[n + 100000];
}
'''
entry = "transpose"
arguments = ["x", "y", "int rows", "int columns"]
global = ["columns", "ceil_div(rows, height)"]
"""


@cache
def verdicts(runtime: str) -> dict[str, str]:
    """The verdict of every case on a runtime, none without it; one process and its children run all."""
    reason = llvm.unavailable() if runtime == "llvm" else opencl.unavailable()
    if reason is not None:
        pytest.skip(reason)
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "tests.support.stray_accesses", runtime], cwd=ROOT,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-1000:]
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.device
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("case", CASES)
def test_a_stray_access_is_no_correct_kernel(runtime: str, case: str) -> None:
    found = verdicts(runtime)
    if not found:
        pytest.skip(f"{runtime} is not installed")
    assert found["none"] == "correct"
    access, distance = case.split(" ", 1)
    near = "NaN in the output" if access == "read" else "wrote outside its buffer: y"
    assert found[case].startswith(near if distance[1:] == "1 element" else "SIG")


@pytest.mark.device
def test_a_kernel_of_a_library_that_strays_far_never_wins(tmp_path: Path) -> None:
    skip_without_device("opencl:0")
    seqtune.use_library(write(tmp_path, TRANSPOSE), allow_commands=True)
    configurations = [Configuration.of("mylib.block", {"height": 1, "stray": stray}) for stray in (0, 1, 2)]
    with Runner(opencl.devices()[0]) as runner:
        good, write_far, read_far = (measurement for _, measurement in runner.measure(
            parse_problem("transpose rows=40 columns=30"), configurations, Options(samples=1)))
    assert good.status is Status.CORRECT, good.message
    for measurement in (write_far, read_far):
        assert measurement.status is Status.CRASH
        assert measurement.message == "the worker died (SIGSEGV, as by an access outside a buffer)"


LIMITED = """
import resource
import pytest
from tests.support import planted
from seqtune.errors import SeqtuneWarning
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.llvm.discovery import devices
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
size = 8 << 30
resource.setrlimit(resource.RLIMIT_AS, (size, size))
with Runner(devices()[-1], kernels=planted.KERNELS, path=planted.PATH) as runner, pytest.warns(SeqtuneWarning) as noted:
    deeds = [Configuration.of("planted.ir", {"deed": deed}) for deed in ("good", "segv", "good")]
    results = runner.measure(Problem.make("gemm", m=1, n=1, k=1), deeds, Options(samples=1))
    print(*(measurement.status.value for _, measurement in results))
print(*(note.message for note in noted), sep="\\n")
"""


@needs_llvm
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no limit of address space")
def test_a_limit_of_address_space_leaves_smaller_gaps_and_the_user_is_told_once() -> None:
    done = subprocess.run([sys.executable, "-c", LIMITED], cwd=ROOT, capture_output=True, text=True, check=False)
    statuses, *notes = done.stdout.splitlines()
    assert statuses == "correct crash correct", done.stderr[-1000:]
    (note,) = notes
    assert "the system refuses 16 GiB of addresses" in note
