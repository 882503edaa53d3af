"""A library's OpenCL kernels, from its file to the records: results are checked, and wrong kernels are survived."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import seqtune
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.expected_outputs import prepare_arrays
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.worker.request import Limits
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write

pytestmark = pytest.mark.device
DEEDS = ("GOOD", "WRONG", "NAN", "UNWRITTEN", "AFTER", "ABORT", "LOOP", "COMPILE", "DIVERGE", "INTEGER")
LIBRARY = """name = "wrong"
[operations.twice]
features = {n = "numbers"}
inputs = {x = "n"}
outputs = {y = "n", count = {shape = "4", dtype = "int32"}}
reference = "reference:twice"
[kernels.deeds]
parameters = {DEED = [DEEDS], group = [4, 8]}
constraints = ["n % group == 0"]
[kernels.deeds.opencl]
source = "twice.cl"
entry = "twice"
arguments = ["x", "y", "count", "int n"]
global = ["n"]
local = ["group"]
""".replace("DEEDS", ", ".join(f'"{deed}"' for deed in DEEDS))
SOURCE = """#include "deeds.h"
__kernel void twice(__global const float *x, __global float *y, __global int *count, int n) {
    int i = get_global_id(0);
    if (i < 4) count[i] = i + (DEED == INTEGER);
#if DEED == COMPILE
    y[i] = nothing;
#elif DEED == NAN
    y[i] = NAN_OF(i);
#elif DEED == AFTER
    y[i] = 2 * x[i]; if (i == 0) y[n] = 0;
#elif DEED == ABORT
    *(__global int * volatile)16 = i;
#elif DEED == LOOP
    volatile int again = 1; while (again) ; y[i] = 0;
#elif DEED == DIVERGE
    if (i % 2) barrier(CLK_LOCAL_MEM_FENCE); y[i] = 2 * x[i] + 1;
#elif DEED != UNWRITTEN
    y[i] = 2 * x[i] + (DEED == WRONG);
#endif
}
"""
HEADER = "#pragma once\n#define NAN_OF(i) as_float(0x7fc00000 + i)\n" + "".join(
    f"#define {deed} {number}\n" for number, deed in enumerate(DEEDS))
REFERENCE = "def twice(x, n):\n    assert len(x) == n\n    return {'y': 2.0 * x, 'count': [0, 1, 2, 3]}\n"


@pytest.fixture(scope="module")
def device() -> Device:
    skip_without_device("opencl:0")
    return opencl.devices()[0]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("twice.cl", SOURCE), ("deeds.h", HEADER), ("reference.py", REFERENCE)):
        (tmp_path / name).write_text(text)
    return tmp_path


MakeLimits = Callable[[Problem, Options, float], Limits]


def impatient(problem: Problem, options: Options, build_allowance: float) -> Limits:
    """A build has the 8 seconds of the options: PoCL's takes a tenth, and OpenCL's allowance of 30 is much to wait."""
    return Limits.of(problem, options)


def measured(device: Device, *requests: Sequence[str], limits: MakeLimits = Limits.of) -> dict[str, Measurement]:
    """The measurements of deeds, by deed. A loop keeps a core busy until its limit, which is a short one.

    PoCL launches a kernel once to build it, so that the limit of a build counts.
    """
    found: dict[str, Measurement] = {}
    with Runner(device, limits=limits) as runner:
        for deeds in requests:
            configurations = [Configuration("wrong.deeds", (("DEED", deed), ("group", 8))) for deed in deeds]
            options = Options(samples=1, build_seconds=8.0, run_seconds=4.0)
            if deeds == ["LOOP"]:
                options = replace(options, build_seconds=1.0, run_seconds=0.5)
            found |= {str(configuration["DEED"]): measurement for configuration, measurement in runner.measure(
                parse_problem("twice n=8"), configurations, options)}
    return found


@pytest.mark.slow
def test_wrong_kernels_become_records_and_the_search_goes_on(device: Device, folder: Path) -> None:
    seqtune.use_library(write(folder, LIBRARY), allow_commands=True)
    deeds = ["WRONG", "NAN", "UNWRITTEN", "AFTER", "ABORT", "COMPILE", "INTEGER"]
    results = measured(device, deeds, ["LOOP"], ["GOOD"], limits=impatient)
    assert [result.status for result in results.values()] == [
        *[Status.CORRECTNESS] * 4, Status.CRASH, Status.COMPILE, Status.CORRECTNESS, Status.TIMEOUT, Status.CORRECT]
    assert "wrong result in y[" in results["WRONG"].message
    assert "NaN in y[0], or part of it never written" in results["NAN"].message
    assert "never written" in results["UNWRITTEN"].message
    assert results["AFTER"].message == "wrote outside its buffer: y"
    assert "twice.cl:6" in results["COMPILE"].message
    assert "wrong result in count[0]: 1, expected 0" in results["INTEGER"].message
    assert results["GOOD"].error == 0


def test_without_a_reference_configurations_agree_with_the_default(device: Device, folder: Path) -> None:
    text = LIBRARY.replace('reference = "reference:twice"\n', "")
    seqtune.use_library(write(folder, text))
    results = measured(device, ["GOOD", "WRONG"])
    assert [result.status for result in results.values()] == [Status.CORRECT, Status.CORRECTNESS]


def test_expected_data_come_from_files(folder: Path) -> None:
    text = LIBRARY.replace('reference = "reference:twice"', 'expected = {y = "y.npy", count = "count.npy"}').replace(
        'inputs = {x = "n"}', 'inputs = {x = {shape = "n", values = "x.npy"}}')
    x = np.arange(64, dtype=np.float32)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", 2 * x)
    np.save(folder / "count.npy", np.arange(4))
    seqtune.use_library(write(folder, text))
    problem = parse_problem("twice n=64")
    arrays, _ = prepare_arrays(problem)
    assert (arrays["x"] == x).all()
    results = operation("twice").results(problem, arrays)
    assert results is not None
    assert (results["y"] == 2 * x).all()
    for array, message in ((np.zeros(65), r"y.npy has the shape \(65,\); \(64,\) is declared"),
                           (np.array([{}] * 64), "y.npy is no array"), (np.zeros(10**6), "too many"),
                           (np.array(["a"] * 64), "holds no numbers")):
        np.save(folder / "y.npy", array, allow_pickle=True)
        with pytest.raises(FormatError, match=message):
            operation("twice").results(problem, arrays)


def test_a_reference_that_fails_is_named_in_one_line(folder: Path) -> None:
    (folder / "reference.py").write_text(
        "def twice(x, n):\n    return {'y': x[1:] if n == 64 else __import__('sys').exit(3) if n == 66 else 1 // 0}\n")
    seqtune.use_library(write(folder, LIBRARY), allow_commands=True)
    for size, message in ((64, "returns no 'count'"), (32, "failed: ZeroDivisionError"), (66, "failed: SystemExit: 3")):
        problem = parse_problem(f"twice n={size}")
        with pytest.raises(SeqtuneError, match=f"reference:twice of twice {message}"):
            operation("twice").results(problem, prepare_arrays(problem)[0])
