"""The promises of declared calls on any backend: a planted one runs a library's kernel, and only offers a driver."""

from __future__ import annotations

from pathlib import Path
from shutil import which

import pytest

import seqtune
from seqtune.data.record import Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.backends.backend import BACKENDS
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import Options
from tests.support.libraries import host_backend
from tests.support.libraries.stencil import write
from tests.support.paths import ROOT

LIBRARY = """name = "mixed"
[operations.blend]
features = {n = "numbers", levels = "levels"}
inputs = {x = "n", codes = {shape = "n", dtype = "uint8", values = "index"}}
outputs = {y = {shape = "n", dtype = "fp64"}, total = {shape = "n", dtype = "int64", values = "ones"}}
[kernels.plain]
parameters = {DEED = [0, 1, 2], width = [1, 2]}
backends = ["host"]
[kernels.plain.opencl]
source = "plain.cl"
entry = "blend"
arguments = ["x", "codes", "y", "total", "int n", "double 1.0 / levels"]
global = ["n // width"]
"""
SOURCE = """__kernel void blend(__global const float *x, __global const uchar *codes, __global double *y,
                    __global long *total, int n, double share) {
    for (int k = 0; k < width; k++) {
        int i = get_global_id(0) * width + k;
        y[i] = x[i] * share + (DEED == 1);
        total[i] += codes[i];
        if (DEED == 2 && i == n - 1) total[n] = 0;
    }
}
"""


@pytest.mark.skipif(which("cc") is None, reason="no C compiler")
def test_a_planted_backend_runs_a_librarys_kernel(tmp_path: Path) -> None:
    (tmp_path / "plain.cl").write_text(SOURCE)
    seqtune.use_library(write(tmp_path, LIBRARY))
    configurations = [Configuration("mixed.plain", (("DEED", deed), ("width", 2))) for deed in (0, 1, 2)]
    with Runner(host_backend.DEVICE, host_backend.BACKEND, path=[str(ROOT)]) as runner:
        results = [result for _, result in runner.measure(parse_problem("blend n=64 levels=4"), configurations,
                                                          Options(samples=1))]
    assert [result.status for result in results] == [Status.CORRECT, Status.CORRECTNESS, Status.CORRECTNESS]
    assert results[0].error == 0
    assert "wrong result in y[0]" in results[1].message
    assert results[2].message == "wrote outside its buffer: total"
    assert "host" not in BACKENDS
