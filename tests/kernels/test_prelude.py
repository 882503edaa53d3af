"""One text for OpenCL and CUDA: both heads define the same words, and NVRTC compiles what PoCL runs."""

from __future__ import annotations

import re

import numpy as np
import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.c_text import text
from seqtune.kernels.c_text.prelude import head, program
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from tests.support.devices import described_gpu
from tests.support.oddities import GPU

SHARED = {"gemm": "cuda.shared_gemm", "conv2d": "cuda.shared_convolution"}


@pytest.mark.parametrize("vector", [1, 2, 4, 8, 16])
def test_the_heads_define_the_same_macros_and_types(vector: int) -> None:
    defined = re.compile(r"^#define (\w+)", re.MULTILINE)
    device = described_gpu("cuda", "h100")
    ours = program(GPU, vector, "", copies=True).text
    theirs = program(device, vector, "", copies=True).text
    words = {name for name in defined.findall(ours) if not re.match(r"COPY\d", name)}
    assert words <= set(defined.findall(theirs))
    for kind in ("floats;", "loose;"):
        assert kind in ours
        assert kind in theirs
    assert ("loose4" in text.head(vector)) == ("loose4" in head(vector))


def test_the_widest_vectors_compile_under_the_head_of_cuda() -> None:
    from seqtune.tuner.backends.cuda.compiler import run_nvrtc, version

    try:
        version()
    except UnavailableError as error:
        pytest.skip(str(error))
    problem = parse_problem("gemm m=64 n=64 k=64 bias=yes activation=relu")
    device = described_gpu("cuda", "h100")
    family = kernel("opencl.gemm")
    configuration = SearchSpace(family, problem, GPU).nearest({"vector": 16, "vectors_n": 1, "tile_m": 4})
    body = call_of(family, problem, GPU, configuration).source.text.removeprefix(text.head(16))
    assert configuration["vector"] == 16
    source = program(device, 16, body)
    cubin, _ = run_nvrtc(source.text, ("--gpu-architecture=sm_90", *source.options))
    assert cubin


@pytest.mark.parametrize("problem", [
    "gemm m=1024 n=1024 k=1024", "gemm m=197 n=768 k=768 trans_b=yes bias=yes", "gemm m=4096 n=4096 k=4096",
    "conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1", "conv2d n=32 c=256 h=14 w=14 k=256 r=3 s=3 pad=1 layout=NHWC",
    "conv2d c=3 h=224 w=224 k=64 r=7 s=7 pad=3 stride=2", "conv2d n=8 c=512 h=7 w=7 k=2048 r=1 s=1"])
@pytest.mark.parametrize("model", ["h200", "rtx-3060", "t4"])
def test_spaces_of_gpus_are_worth_searching_and_can_be_ordered(problem: str, model: str) -> None:
    device, given = described_gpu("cuda", model), parse_problem(problem)
    space = SearchSpace(kernel(SHARED[given.type]), given, device)
    assert 1000 <= len(space) <= 50_000
    assert space.default in space


@pytest.mark.parametrize("name", SHARED.values())
def test_shared_memory_of_the_launch_is_what_the_declaration_says(name: str) -> None:
    family, device = kernel(name), described_gpu("cuda", "h100")
    problem = parse_problem("gemm m=100 n=72 k=90" if family.operation == "gemm" else
                            "conv2d c=20 h=9 w=9 k=40 r=3 s=3 pad=1")
    space = SearchSpace(family, problem, device)
    columns = space.columns()
    for row in np.random.default_rng(0).integers(len(space), size=50).tolist():
        steps = call_of(family, problem, device, space[row]).steps
        assert steps[0].local_size == (columns["block_threads"][row], 1)
        blocks = [whole // part for whole, part in zip(steps[0].global_size, steps[0].local_size, strict=True)]
        assert steps[0].shared == columns["shared_bytes"][row]
        assert int(np.prod(blocks)) == columns["blocks"][row]
        assert (len(steps) == 2) == (columns["split_k"][row] > 1)
