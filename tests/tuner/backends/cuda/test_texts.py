"""The texts of cuda families that are OpenCL C as well compute correct results on an OpenCL device, such as PoCL."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.kernel import Setting
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from tests.support.devices import described_gpu
from tests.support.exactness import check

ODD = "conv2d n=2 c=12 h=9 w=10 k=36 r=3 s=3 pad=1 stride_w=2 bias=yes activation=relu"
CASES: list[tuple[str, str, dict[str, Setting]]] = [
    ("cuda.gemm", "gemm m=37 n=50 k=66 trans_a=yes bias=yes", {"tile_m": 3, "order": "rows"}),
    ("cuda.direct", ODD, {"border": "copy", "tile_w": 2}),
    ("cuda.implicit_gemm", ODD + " layout=NHWC", {"local_a": 1, "local_b": 1, "depth": 4}),
    ("cuda.shared_gemm", "gemm m=70 n=50 k=90 bias=yes activation=relu", {"copy": "registers", "stages": 1, "pad": 4}),
    ("cuda.shared_gemm", "gemm m=140 n=52 k=90 trans_a=yes", {"block_m": 16, "stages": 2, "group_m": 4}),
    ("cuda.shared_gemm", "gemm m=33 n=52 k=160 trans_b=yes activation=relu", {"copy": "async", "stages": 3}),
    ("cuda.shared_gemm", "gemm m=17 n=36 k=160 trans_a=yes bias=yes", {"copy": "async", "stages": 4, "split_k": 4}),
    ("cuda.shared_convolution", ODD, {"copy": "async", "stages": 3, "inner": "flat"}),
    ("cuda.shared_convolution", ODD + " layout=NHWC", {"copy": "registers", "stages": 2, "inner": "channels"}),
    ("cuda.shared_convolution", "conv2d n=2 c=64 h=6 w=6 k=40 r=1 s=1 groups=2",
     {"copy": "async", "block_k": 8, "split_k": 2}),
    ("cuda.shared_convolution", ODD + " groups=2", {"copy": "registers", "stages": 1, "split_k": 2, "inner": "flat"})]


@pytest.mark.parametrize(("name", "problem", "settings"), CASES)
@pytest.mark.device
def test_what_cuda_compiles_computes_right_in_opencl(backend: OpenCLBackend, name: str, problem: str,
                                                     settings: dict[str, Setting]) -> None:
    device, given, family = described_gpu("cuda", "h200"), parse_problem(problem), kernel(name)
    space = SearchSpace(family, given, device)
    configuration = space.nearest(settings)
    assert {key: configuration[key] for key in settings} == settings
    check(backend, family, given, [configuration])


@pytest.mark.device
def test_a_sum_of_slices_is_the_same_in_every_run(backend: OpenCLBackend) -> None:
    problem, device = parse_problem("gemm m=16 n=16 k=512"), described("cuda", "h200")
    assert device is not None
    space = SearchSpace(kernel("cuda.shared_gemm"), problem, device)
    split = [space[row] for row in np.flatnonzero(space.columns()["split_k"] == 16)[:1]]
    assert split
    check(backend, space.kernel, problem, split)  # which launches twice and compares
