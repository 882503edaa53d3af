"""Bound kernels on memory of their caller, generated steps between kernels, and the threads that run both."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.program.bound_kernels import BoundKernel, KernelBinder, SharedConstants
from seqtune.networks.program.openmp import OpenMP, loaded_runtime
from seqtune.networks.steps.pointwise import pointwise
from seqtune.networks.steps.view import View
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.compiler import Compiler
from seqtune.tuner.backends.llvm.threads import Threads
from seqtune.tuner.measuring.reference import make_operands, reference
from tests.support.installation.optional import skip_without
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm

PROBLEMS = [
    Problem.make("conv2d", c=16, h=9, w=11, k=20, r=3, s=3, pad_h=1, pad_w=1, layout="NHWC", bias="yes"),
    Problem.make("conv2d", n=2, c=6, h=9, w=7, k=10, r=3, s=2, stride_w=2, groups=2, activation="relu"),
    Problem.make("gemm", m=7, n=33, k=8, trans_b="yes", bias="yes"),
]


def pytorchs_openmp() -> Path:
    """The OpenMP runtime that PyTorch brings; skips the test where there is none."""
    skip_without("torch")
    import torch

    runtime = loaded_runtime(Path(torch.__file__).parent)
    if runtime is None:
        pytest.skip("this PyTorch has no OpenMP runtime of its own")
    return runtime


@pytest.fixture(scope="module", params=["pinned", "openmp"])
def binder(request: pytest.FixtureRequest) -> Iterator[KernelBinder]:
    device = llvm.devices()[0]
    compiler = Compiler(device.instruction_set)
    if request.param == "pinned":
        threads = Threads(compiler, device.threads)
        yield KernelBinder(device, compiler, threads)
        threads.close()
        return
    runtime = pytorchs_openmp()
    yield KernelBinder(device, compiler, OpenMP(compiler, device.threads, runtime))


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.type)
def test_every_call_computes_on_the_callers_memory(binder: KernelBinder, problem: Problem) -> None:
    for family in kernels_for(problem, binder.device):
        operands = make_operands(problem, seed=1)
        call = binder.bind(problem, SearchSpace(family, problem, binder.device).default, operands["weights"],
                           operands.get("bias"))
        for seed in (1, 2):
            x = make_operands(problem, seed=seed)["x"]
            expected = reference(problem, {**operands, "x": x})
            y = np.full(expected.shape, np.nan, np.float32)
            call(x.ctypes.data, y.ctypes.data)
            assert np.abs(y - expected).max() < 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.type)
def test_a_fused_relu_passes_nan_on(binder: KernelBinder, problem: Problem) -> None:
    given = {name: value for name, value in problem.features if value is not None}
    problem = Problem.make(problem.type, **{**given, "activation": "relu"})
    operands = make_operands(problem)
    x = np.full_like(operands["x"], np.nan)
    shape = reference(problem, operands).shape
    for family in kernels_for(problem, binder.device):
        y = np.zeros(shape, np.float32)
        binder.bind(problem, SearchSpace(family, problem, binder.device).default, operands["weights"],
                    operands.get("bias"))(x.ctypes.data, y.ctypes.data)
        assert np.isnan(y).all(), family.name


def test_calls_share_one_workspace_and_keep_what_they_need(binder: KernelBinder) -> None:
    small = Problem.make("conv2d", c=4, h=5, w=5, k=16, r=3, s=3, pad_h=1, pad_w=1)
    large = Problem.make("conv2d", c=4, h=50, w=50, k=16, r=3, s=3, pad_h=1, pad_w=1)
    calls = []
    for problem in (small, large):
        operands = make_operands(problem)
        family = kernels_for(problem, binder.device)[0]
        configuration = SearchSpace(family, problem, binder.device).default
        calls.append((problem, operands, binder.bind(problem, configuration, operands["weights"], None)))
    for problem, operands, call in (*calls, *calls):
        expected = reference(problem, operands)
        y = np.full(expected.shape, np.nan, np.float32)
        call(operands["x"].ctypes.data, y.ctypes.data)
        assert np.abs(y - expected).max() < 1e-4 * np.abs(expected).max()


def test_bindings_of_equal_weights_share_their_memory(binder: KernelBinder) -> None:
    def packed(m: int, weights: Array) -> int:
        problem = Problem.make("gemm", m=m, n=64, k=32, trans_b="yes")
        family = kernels_for(problem, binder.device)[0]
        configuration = SearchSpace(family, Problem.make("gemm", m=9, n=64, k=32, trans_b="yes"), binder.device).default
        calls.append(binder.bind(problem, configuration, weights, None))
        return int(calls[-1].job[1])

    calls: list[BoundKernel] = []  # they keep the memory
    weights = np.random.default_rng(0).standard_normal((64, 32), dtype=np.float32)
    other = weights.copy()
    other[5, 7] = -other[5, 7]
    addresses = [packed(m, given) for m, given in ((9, weights), (11, weights.copy()), (9, other))]
    assert addresses[0] == addresses[1] != addresses[2]


def test_constants_are_shared_by_their_bytes_while_somebody_holds_them() -> None:
    constants = SharedConstants()
    numbers = np.zeros(5000, np.float32)
    kept = constants.keep(numbers)
    assert kept is not numbers
    assert kept is constants.keep(numbers.copy())
    negative = numbers.copy()
    negative[-2] = -0.0
    assert np.signbit(constants.keep(negative)[-2])
    nan = np.full(7, np.nan, np.float32)
    held = constants.keep(nan)
    assert constants.keep(nan.copy()) is held
    gone = weakref.ref(held)
    del held
    assert gone() is None


def test_weights_are_packed_by_several_threads_where_they_stay(binder: KernelBinder) -> None:
    problem = Problem.make("gemm", m=9, n=64, k=32, trans_b="yes")
    family = kernels_for(problem, binder.device)[0]
    configuration = SearchSpace(family, problem, binder.device).default
    random = np.random.default_rng(0)
    weights = [random.standard_normal((64, 32), dtype=np.float32) for _ in range(5)]
    layers = [(problem, configuration, lambda index=index: weights[index]) for index in (0, 1, 2, 3, 4, 0)]
    packed = binder.pack_all(layers)
    assert packed[0] is packed[5]
    for array, given in zip(packed, weights, strict=False):
        np.testing.assert_array_equal(array, binder.pack(problem, configuration, given))
        bound = binder.bind_packed(problem, configuration, array, None)
        assert bound.job[1] == array.ctypes.data


@pytest.mark.parametrize("shape", [(1,), (63,), (5000,), (70, 130)])
def test_steps_run_on_all_threads_and_in_place(binder: KernelBinder, shape: tuple[int, ...]) -> None:
    x, other = np.random.default_rng(0).standard_normal((2, *shape), dtype=np.float32)
    view = View.contiguous(shape)
    step = pointwise(Formula.of("add", 0, 1).then(Formula.of_activation("relu")), view, [view, view],
                     min(16, binder.device.vector_floats))
    call = binder.bind_source(step.source, step.launch)
    expected = np.maximum(x + other, 0)
    for y in (np.full_like(x, np.nan), x):
        call.arguments[:3] = y.ctypes.data, x.ctypes.data, other.ctypes.data
        call(0, 0)
        assert np.array_equal(y, expected)


def test_only_llvm_devices_run_on_this_process_s_memory(binder: KernelBinder) -> None:
    with pytest.raises(DeviceError, match="llvm device"):
        KernelBinder(Device("opencl:0", "opencl", "x", "y"), Compiler(binder.device.instruction_set), binder.threads)


def test_the_runtime_of_the_package_itself_is_preferred(tmp_path: Path) -> None:
    line = "7f00-7f01 r-xp 00000000 fe:00 1  {}\n"

    def runtime_of(*paths: str) -> str | None:
        (tmp_path / "maps").write_text("7f00-7f01 rw-p 00000000 00:00 0\n" + "".join(map(line.format, paths)))
        runtime = loaded_runtime(Path("/s/torch"), tmp_path / "maps")
        return None if runtime is None else str(runtime)

    other = "/s/xgboost.libs/libgomp-1.so"
    assert runtime_of() is None
    assert runtime_of("/s/torch/lib/libtorch.so") is None
    assert runtime_of(other, "/s/torch/lib/libgomp.so.1") == "/s/torch/lib/libgomp.so.1"
    assert runtime_of(other, "/s/torch.libs/libgomp-2.so") == "/s/torch.libs/libgomp-2.so"
    assert runtime_of("/usr/lib/libgomp.so.1", "/usr/lib/libgomp.so.1") == "/usr/lib/libgomp.so.1"
    assert runtime_of("/usr/lib/libgomp.so.1", other) is None


SHARES = """define void @main(ptr %x, ptr %w, ptr %bias, ptr %y, ptr %ws, ptr %a, i64 %begin, i64 %end) {
  %from = getelementptr float, ptr %y, i64 %begin
  %past = uitofp i64 %end to float
  store float %past, ptr %from, align 4
  ret void
}"""


@pytest.mark.parametrize("levels", [0, 1])  # nested regions that may run in parallel
def test_shares_are_as_many_as_the_threads_requested_even_where_the_runtime_gives_fewer(levels: int) -> None:
    runtime = pytorchs_openmp()
    library, device = ctypes.CDLL(str(runtime)), llvm.devices()[0]
    compiler = Compiler(device.instruction_set)
    binder = KernelBinder(device, compiler, OpenMP(compiler, 3, runtime))
    before = library.omp_get_max_active_levels()
    library.omp_set_max_active_levels(levels)
    try:
        y = np.zeros(7, np.float32)
        binder.bind_source(KernelSource(SHARES), Launch((0,), (Phase("main", 7),)))(0, y.ctypes.data)
    finally:
        library.omp_set_max_active_levels(before)
    assert y.tolist() == [2, 0, 4, 0, 7, 0, 0]
