"""The tensor-core families compute right numbers on the shim; their spaces and formulas hold on every architecture."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from seqtune.errors import UnavailableError
from seqtune.kernels.cuda.tensor_space import panels
from seqtune.kernels.kernel import Configuration, quantities
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.cuda.compiler import CubinCompiler
from seqtune.tuner.measuring.timing import prepare
from tests.support.cuda.shim import bank_conflicts, run_on_shim, why_not_here
from tests.support.devices import described_gpu

GEMM, CONVOLUTION = "cuda.tensor_gemm", "cuda.tensor_convolution"
gpu = partial(described_gpu, "cuda")
SMALL: dict[str, int | str] = {"block_m": 64, "block_n": 32, "warp_m": 32, "warp_n": 32, "block_k": 32}
RUNS: dict[str, tuple[str, str, str, dict[str, int | str]]] = {  # what is special -> family, GPU, problem, settings
    "rows of A, swizzled": (GEMM, "a100", "gemm m=70 n=40 k=136 dtype=bf16 bias=yes",
                            {"layout_shared": "swizzle", "fragments": 2, "epilogue": "shared"}),
    "columns of A, padded": (GEMM, "a100", "gemm m=72 n=40 k=100 dtype=fp16 trans_a=yes trans_b=yes",
                             {"layout_shared": "padding", "fragments": 1, "epilogue": "direct"}),
    "odd sizes, slices of k": (GEMM, "rtx-4090", "gemm m=33 n=35 k=261 dtype=fp16 activation=relu", {"split_k": 3}),
    "equal shares": (GEMM, "h200", "gemm m=70 n=100 k=1000 dtype=bf16", {"schedule": "stream_k", "fragments": 2}),
    "sm_75": (GEMM, "t4", "gemm m=60 n=36 k=100 dtype=fp16", {"stages": 2}),
    "channels last": (CONVOLUTION, "a100", "conv2d n=2 c=16 h=9 w=7 k=40 r=3 s=3 pad_h=1 pad_w=1 dtype=bf16 "
                      "layout=NHWC bias=yes", {"layout_shared": "swizzle", "epilogue": "shared"}),
    "channels first, groups": (CONVOLUTION, "a100", "conv2d n=2 c=12 h=9 w=8 k=36 r=3 s=2 groups=2 stride_h=2 "
                               "dilation_w=2 pad_w=1 dtype=fp16 activation=relu", {"epilogue": "shared"}),
    "a stage beyond the end of k": (CONVOLUTION, "h200", "conv2d n=3 c=16 h=16 w=9 k=32 r=1 s=1 dtype=fp16", {}),
}
USUAL = ("gemm m=4096 n=4096 k=4096 dtype=bf16", "gemm m=16 n=4096 k=4096 dtype=fp16",
         "gemm m=2048 n=512 k=16384 dtype=bf16", "gemm m=1000 n=1000 k=1001 dtype=fp16",
         "conv2d n=32 c=256 h=14 w=14 k=256 r=3 s=3 pad_h=1 pad_w=1 layout=NHWC dtype=bf16",
         "conv2d n=32 c=3 h=224 w=224 k=64 r=7 s=7 stride_h=2 stride_w=2 pad_h=3 pad_w=3 dtype=fp16",
         "conv2d n=1 c=256 h=14 w=14 k=256 r=3 s=3 pad_h=1 pad_w=1 dtype=fp16")


def space_of(text: str, model: str, family: str = "") -> SearchSpace:
    """The space of the family that solves the problem."""
    return SearchSpace(kernel(family or (GEMM if text.startswith("gemm") else CONVOLUTION)), parse_problem(text),
                       gpu(model))


@pytest.mark.skipif(why_not_here() is not None, reason=why_not_here() or "")
@pytest.mark.parametrize("special", RUNS)
def test_the_numbers_are_right_lane_by_lane(special: str) -> None:
    family, model, text, settings = RUNS[special]
    space = space_of(text, model, family)
    configuration = space.nearest({**SMALL, **settings})
    assert all(configuration[name] == value for name, value in settings.items()), configuration.brief()
    operands, expected = prepare(space.problem)
    bank_conflicts()
    error = expected.error(run_on_shim(space.kernel, space.problem, space.device, configuration, 0, operands))
    assert error <= expected.tolerance, configuration.brief()
    assert bank_conflicts() == 0, configuration.brief()


@pytest.mark.parametrize("text", USUAL)
def test_spaces_of_usual_shapes_have_1000_to_50000_configurations(text: str) -> None:
    space = space_of(text, "h200")
    assert 1000 <= len(space) <= 50_000
    assert (space.columns()["shared_bytes"] <= space.device.local_memory).all()


def test_all_threads_copy_equally_many_pixels_of_a_channels_first_tile() -> None:
    text = "conv2d c=256 h=14 w=14 k=1024 r=1 s=1 dtype=fp16"
    first, last = space_of(text, "h100"), space_of(f"{text} layout=NHWC", "h100")
    assert set(first.columns()["warps"]) == {2, 4, 8}
    assert set(last.columns()["warps"]) == {2, 3, 4, 6, 8}  # there the threads are at one k, for several pixels
    wrong: dict[str, int | str] = {
        "block_m": 16, "block_n": 96, "warp_m": 16, "warp_n": 32, "block_k": 64, "stages": 3, "fragments": 2,
        "layout_shared": "padding", "epilogue": "shared", "group_m": 1, "schedule": "tiles", "split_k": 1}
    configuration = Configuration.of(CONVOLUTION, wrong)  # computed wrong numbers on an NVIDIA H100
    assert "equally many pixels" in str(first.why_not(configuration))
    assert configuration in last


@pytest.mark.parametrize("model", ["t4", "a100", "a10", "rtx-4090", "rtx-5090"])
def test_every_architecture_has_configurations_that_fit(model: str) -> None:
    for text in USUAL:
        problem = parse_problem(text)
        if model == "t4" and problem["dtype"] == "bf16":
            assert "sm_80" in str(kernel(GEMM if problem.type == "gemm" else CONVOLUTION).why_not(problem, gpu(model)))
            continue
        columns = space_of(text, model).columns()
        assert (columns["shared_bytes"] <= gpu(model).local_memory).all()
        assert (columns["thread_registers_estimate"] * columns["block_threads"] <= 65536).all()
        assert (columns["stages"] >= 2).all() or model == "t4"


def test_b_is_packed_in_tiles_with_zeros_beyond_its_end() -> None:
    b = np.arange(1, 7 * 5 + 1, dtype=np.float32).reshape(1, 7, 5)  # (product, column, k)
    packed = panels(b, 4, 3)
    assert packed.shape == (1, 2, 2, 4, 3)  # product, tile of columns, tile of k, column, k
    assert np.array_equal(packed[0, 1, 0, :3], b[0, 4:, :3])
    assert packed.sum() == b.sum()
    assert (packed[0, 1, 1, :, 2] == 0).all()


@pytest.mark.parametrize("model", ["t4", "a100", "h200"])
def test_the_default_compiles_without_spills_in_the_registers_it_was_given(model: str) -> None:
    space = space_of("gemm m=4096 n=4096 k=4096 dtype=fp16", model)
    try:
        steps = CubinCompiler(space.device).steps(space.problem, space.kernel, space.default)
    except UnavailableError as error:
        pytest.skip(str(error))
    names = quantities(space.kernel.derived, space.problem, space.device, space.default)
    for step in steps:
        assert step.spill_bytes == 0
        assert step.shared == names["shared_bytes"]
        assert abs(step.registers - names["thread_registers_estimate"]) <= 48
