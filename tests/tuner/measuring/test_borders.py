"""Elements that a kernel does not write: the refusal names the causes and what to do, and outputs may have contents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import seqtune
from seqtune.__main__ import main
from seqtune.data.record import Measurement, Status
from seqtune.errors import MisuseError, ProblemError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.opencl import discovery as opencl
from seqtune.tuner.measuring.expected_outputs import prepare_arrays
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.installation.optional import skip_without_device
from tests.support.libraries.stencil import write

LIBRARY = """name = "borders"
[operations.average]
features = {n = "rows and columns"}
inputs = {x_old = "n, n", weight = "1"}
outputs = {x_new = {shape = "n, n"}}
[kernels.plain]
parameters = {wrong = [0, 1]}
[kernels.plain.opencl]
text = '''
__kernel void average(__global const float *x_old, __global const float *weight, __global float *x_new, int n) {
    const int i = get_global_id(0), j = get_global_id(1);
    if (i > 0 && j > 0 && i < n - 1 && j < n - 1)
        x_new[j * n + i] = weight[0] * (x_old[j * n + i - 1] + x_old[j * n + i + 1]) + wrong;
    else if (wrong)
        x_new[j * n + i] = 0;
}
'''
entry = "average"
arguments = ["x_old", "weight", "x_new", "int n"]
global = ["n", "n"]
"""
COPY = LIBRARY.replace('shape = "n, n"}', 'shape = "n, n", values = "copy of x_old"}')
PROBLEM = "average n=8"


def measured(folder: Path, text: str, problem: str = PROBLEM) -> list[Measurement]:
    """Measure the right and the wrong configuration on the first OpenCL device."""
    skip_without_device("opencl:0")
    seqtune.use_library(write(folder, text), allow_commands=True)
    configurations = [Configuration("borders.plain", (("wrong", wrong),)) for wrong in (0, 1)]
    with Runner(opencl.devices()[0]) as runner:
        return [measurement for _, measurement in runner.measure(
            parse_problem(problem), configurations, Options(samples=1))]


@pytest.mark.device
def test_elements_that_nothing_wrote_are_counted_and_the_remedies_are_named(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MisuseError, match=r"the expected x_new\[0, 0\] is nan \(28 of 64 elements are not") as refusal:
        measured(tmp_path, LIBRARY)
    for words in ('give the output values = "zeros" or values = "copy of x_old"',
                  "it read outside an input (x_old, weight), or its arguments swap an input and an output"):
        assert words in str(refusal.value)
    swapped = LIBRARY.replace('arguments = ["x_old", "weight", "x_new"', 'arguments = ["x_new", "weight", "x_old"')
    write(tmp_path, swapped)
    command = ["tune", PROBLEM, "--device", "opencl:0", "--library", str(tmp_path), "--trials", "2", "--allow-commands",
             "--journal", str(tmp_path / "journal.sqlite")]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert "or its arguments swap an input and an output" in error
    assert 'give the output values = "zeros"' in error


@pytest.mark.device
@pytest.mark.parametrize("reference", [False, True])
def test_an_output_may_start_as_a_copy_of_an_input(tmp_path: Path, reference: bool) -> None:
    (tmp_path / "reference.py").write_text(
        "def run(x_old, weight, x_new):\n    assert (x_new == x_old).all()\n"
        "    x_new[1:-1, 1:-1] = weight[0] * (x_old[1:-1, :-2] + x_old[1:-1, 2:])\n    return x_new\n")
    text = COPY.replace("[kernels.plain]\n", 'reference = "reference:run"\n[kernels.plain]\n') if reference else COPY
    right, wrong = measured(tmp_path, text)
    assert right.status is Status.CORRECT, right.message
    assert wrong.status is Status.CORRECTNESS


def test_the_contents_are_those_of_the_input_in_the_shape_of_the_output(tmp_path: Path) -> None:
    seqtune.use_library(write(tmp_path, COPY.replace('shape = "n, n",', 'shape = "n * n",')))
    arrays, _ = prepare_arrays(parse_problem(PROBLEM))
    assert arrays["x_new"].shape == (64,)
    assert np.array_equal(arrays["x_new"], arrays["x_old"].ravel())


def test_a_copy_of_another_size_is_refused_in_one_line(tmp_path: Path) -> None:
    seqtune.use_library(write(tmp_path, COPY.replace('x_old = "n, n"', 'x_old = "n, n + 2"')))
    with pytest.raises(ProblemError, match=r"average: x_new \(8, 8\) starts as a copy of x_old \(8, 10\), which has"):
        operation("average").tensors(parse_problem(PROBLEM))


SCORES = """name = "scores"
[operations.scores]
features = {n = "rows and columns"}
inputs = {q = "n, n"}
outputs = {y = "n, n"}
reference = "reference:run"
[kernels.plain]
parameters = {fault = ["none", "factor", "mask", "skipped"]}
[kernels.plain.opencl]
text = '''
#define none 0
#define factor 1
#define mask 2
#define skipped 3
__kernel void scores(__global float *y, __global const float *q, int n) {
    const int i = get_global_id(0), j = get_global_id(1);
    if (i == j && fault == skipped) return;
    const float score = (fault == factor ? 100 : 0.125f) * q[j * n + i];
    y[j * n + i] = i > j ? (fault == mask ? 0.5f : MASK) : i == j ? NAN : score;
}
'''
entry = "scores"
arguments = ["y", "q", "int n"]
global = ["n", "n"]
"""


@pytest.mark.device
@pytest.mark.parametrize(("mask", "value"), [("-1e9f", "-1e9"), ("-INFINITY", "-np.inf")])
def test_a_mask_and_nan_where_they_are_expected_hide_no_error(tmp_path: Path, mask: str, value: str) -> None:
    skip_without_device("opencl:0")
    (tmp_path / "reference.py").write_text(
        "import numpy as np\ndef run(q, n):\n    y = 0.125 * q\n"
        f"    y[np.triu_indices(n, 1)] = {value}\n    y[np.diag_indices(n)] = np.nan\n    return y\n")
    seqtune.use_library(write(tmp_path, SCORES.replace("MASK", mask)), allow_commands=True)
    faults = ("none", "factor", "mask", "skipped")
    with Runner(opencl.devices()[0]) as runner:
        measurements = {fault: measurement for fault, (_, measurement) in zip(faults, runner.measure(
            parse_problem("scores n=16"),
            [Configuration("scores.plain", (("fault", fault),)) for fault in faults], Options(samples=1)), strict=True)}
    assert measurements["none"].status is Status.CORRECT, measurements["none"].message
    assert [measurements[fault].status for fault in faults[1:]] == [Status.CORRECTNESS] * 3
    assert "never written" in measurements["skipped"].message
