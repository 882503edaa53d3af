"""The llvm kernels compute what their operations define, and the backend keeps its contract."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.devices.device import MEASURED, Device
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm import direct as llvm_direct
from seqtune.kernels.llvm.launch import Launch, Phase
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import BuildError, LaunchError
from seqtune.tuner.backends.llvm.backend import LLVMBackend
from seqtune.tuner.backends.llvm.compiler import instruction_sets
from seqtune.tuner.backends.llvm.facts import measured_rates
from seqtune.tuner.backends.measured_rates import RateCache
from seqtune.tuner.measuring.reference import make_operands
from seqtune.tuner.processes import unpin, usable_processors
from tests.support.exactness import check
from tests.support.llvm import DEVICES, needs_llvm
from tests.support.oddities import odd_problems

pytestmark = needs_llvm

BY_NAME = {device.name: device for device in DEVICES}
MOST = max((device.threads for device in DEVICES), default=1)


@pytest.fixture(params=[  # with fewer threads the machine code is the same: once is enough
    name if device.threads == MOST or device.instruction_set == DEVICES[0].instruction_set
    else pytest.param(name, marks=pytest.mark.anywhere) for name, device in BY_NAME.items()])
def backend(request: pytest.FixtureRequest) -> Iterator[LLVMBackend]:
    opened = LLVMBackend(BY_NAME[request.param])
    yield opened
    opened.close()


def conv(**features: int | str) -> Problem:
    return Problem.make("conv2d", **features)


def corners(space: SearchSpace, generator: np.random.Generator, count: int) -> list[Configuration]:
    """The default, the first and last rows, the largest tile and some others."""
    columns = space.columns()
    rows = [0, len(space) - 1, int(np.argmax(columns["accumulators"])), int(np.argmax(columns["unrolled"]))]
    return [space.default, *(space[row] for row in rows), *space.sample(generator, count)]


def with_value(space: SearchSpace, name: str, value: Setting, generator: np.random.Generator, count: int
               ) -> list[Configuration]:
    """Up to `count` random configurations with this value of a parameter."""
    rows = np.flatnonzero(space.columns()[name] == value)
    return [space[int(row)] for row in generator.permutation(rows)[:count]]


def test_odd_convolutions_are_right_on_every_device_all_over_the_space(backend: LLVMBackend) -> None:
    family, generator = kernel("llvm.direct"), np.random.default_rng(len(backend.device.name))
    for problem in odd_problems(family, backend.device, 6, backend.device.vector_bits + backend.device.threads):
        space = SearchSpace(family, problem, backend.device)
        check(backend, family, problem, [
            *corners(space, generator, 2), *with_value(space, "borders", "peel", generator, 3)])


def test_no_memory_outside_the_input_enters_the_result(backend: LLVMBackend) -> None:
    family, generator = kernel("llvm.direct"), np.random.default_rng(0)
    for layout in ("NCHW", "NHWC"):
        problem = conv(c=4, h=6, w=13, k=16, r=3, s=3, pad_h=1, pad_w=1, layout=layout)
        space = SearchSpace(family, problem, backend.device)
        check(backend, family, problem, with_value(space, "borders", "peel", generator, 8))  # canaries are NaN


def test_odd_matrix_products_are_right_on_every_device(backend: LLVMBackend) -> None:
    family, generator = kernel("llvm.gemm"), np.random.default_rng(5)
    sizes = [(1, 1, 1), (7, 3, 5), (1, 40, 24), (33, 50, 8), (65, 129, 16), (40, 17, 3)]
    for index, (m, n, k) in enumerate(sizes):
        problem = Problem.make(
            "gemm", m=m, n=n, k=k, trans_a=("no", "yes")[index % 2], trans_b=("no", "yes")[index // 2 % 2],
            bias=("yes", "no")[index % 2], activation=("none", "relu")[index // 3])
        check(backend, family, problem, corners(SearchSpace(family, problem, backend.device), generator, 3))


def test_a_problem_that_the_kernel_does_not_solve_is_refused_with_the_reason() -> None:
    family = kernel("llvm.direct")
    assert "fp32" in str(family.why_not(conv(c=4, h=4, w=4, k=4, r=1, s=1, dtype="fp16"), DEVICES[0]))
    backward = conv(c=4, h=4, w=4, k=4, r=1, s=1, direction="backward_data")
    assert "forward" in str(family.why_not(backward, DEVICES[0]))


def test_sizes_that_arrive_at_run_time_share_one_source() -> None:
    family, device = llvm_direct.IMPLEMENTATION, DEVICES[0]
    first = conv(c=64, h=20, w=58, k=64, r=3, s=3, pad_h=1, pad_w=1)  # no tile is as wide: that has a source of its own
    other = conv(n=3, c=32, h=31, w=61, k=96, r=3, s=3, pad_h=2, pad_w=1, dilation_h=2, groups=2)
    space = SearchSpace(kernel("llvm.direct"), first, device)
    for borders in ("copy", "peel"):
        for chosen in with_value(space, "borders", borders, np.random.default_rng(0), 3):
            assert family.source(first, device, chosen) == family.source(other, device, chosen)


def test_equal_sources_are_built_once() -> None:
    opened = LLVMBackend(DEVICES[0])
    problem = conv(c=8, h=9, w=9, k=32, r=3, s=3)
    space = SearchSpace(kernel("llvm.direct"), problem, DEVICES[0])
    first = opened.build(problem, space.kernel, space.default)
    again = opened.build(problem, space.kernel, space.default)
    assert first.build_seconds > 0
    assert again.build_seconds == 0
    opened.close()


class Planted:
    """An implementation with the given source text."""

    includes = "nothing"

    def __init__(self, text: str) -> None:
        self.text = text

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> KernelSource:
        return KernelSource(self.text)

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        return Launch((0,), (Phase("main", 1),), 16)

    def packing(self, problem: Problem, configuration: Configuration) -> None:
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: np.ndarray) -> np.ndarray:
        return weights


MAIN = "define void @main(ptr %x, ptr %w, ptr %bias, ptr %y, ptr %ws, ptr %a, i64 %b, i64 %e) {{\n  {}\n  ret void\n}}"
OUTSIDE = {
    "y": "%p = getelementptr float, ptr %y, i64 16\n  store float 0.0, ptr %p, align 4",
    "x": "%p = getelementptr float, ptr %x, i64 -1\n  store float 0.0, ptr %p, align 4",
    "workspace": "%p = getelementptr float, ptr %ws, i64 16\n  store float 0.0, ptr %p, align 4",
    "weights": "%p = getelementptr float, ptr %w, i64 -3\n  store float 0.0, ptr %p, align 4",
}


def planted(text: str) -> tuple[Problem, Kernel, Configuration]:
    problem = conv(c=4, h=2, w=2, k=4, r=1, s=1)
    family = replace(kernel("llvm.direct"), implementation=Planted(text))
    return problem, family, SearchSpace(family, problem, DEVICES[0]).default


@pytest.mark.parametrize("text", [
    "this is not IR", MAIN.format("%v = load <4 x flaot>, ptr %x"), "define void @other() {\n  ret void\n}",
    "declare void @nowhere_to_be_found()\n" + MAIN.format("call void @nowhere_to_be_found()"),
])
def test_a_source_that_does_not_build_is_a_build_error(text: str) -> None:
    opened = LLVMBackend(DEVICES[0])
    try:
        with pytest.raises(BuildError) as caught:
            opened.build(*planted(text))
        assert "\n" not in str(caught.value)
    finally:
        opened.close()


def test_a_kernel_that_is_called_is_refused() -> None:
    opened, problem = LLVMBackend(DEVICES[0]), Problem.make("gemm", m=4, n=4, k=4)
    with pytest.raises(LaunchError, match=r"opencl\.gemm has no code that llvm can run"):
        opened.build(problem, kernel("opencl.gemm"), Configuration.of("opencl.gemm", {}))
    opened.close()


@pytest.mark.parametrize("name", list(OUTSIDE))
def test_a_write_outside_a_buffer_is_found_and_named(name: str) -> None:
    opened = LLVMBackend(DEVICES[0])
    problem, family, configuration = planted(MAIN.format(OUTSIDE[name]))
    executable = opened.build(problem, family, configuration)
    operands = make_operands(problem)
    executable.load(operands)
    executable.poison()
    assert executable.overrun() is None
    assert np.isnan(executable.outputs()["y"]).all()
    executable.run()
    assert executable.overrun() == name
    executable.close()
    opened.close()


def test_nothing_runs_before_loading_or_after_closing() -> None:
    opened = LLVMBackend(DEVICES[0])
    problem = conv(c=4, h=2, w=2, k=4, r=1, s=1)
    executable = opened.build(problem, kernel("llvm.direct"), SearchSpace(
        kernel("llvm.direct"), problem, DEVICES[0]).default)
    with pytest.raises(LaunchError):
        executable.run()
    operands = make_operands(problem)
    executable.load(operands)
    executable.close()
    executable.close()
    with pytest.raises(LaunchError):
        executable.run()
    opened.close()


def test_closing_ends_the_threads_and_gives_the_cpus_back() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no thread affinity on this system")
    cpus, before = os.sched_getaffinity(0), threading.active_count()
    first, second = LLVMBackend(DEVICES[0]), LLVMBackend(DEVICES[-1])
    assert len(os.sched_getaffinity(0)) == 1
    first.close()
    second.close()
    second.close()
    assert os.sched_getaffinity(0) == cpus
    assert threading.active_count() == before


def test_a_process_that_is_started_from_a_pinned_thread_has_all_cpus() -> None:
    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("no thread affinity on this system")
    cpus = os.sched_getaffinity(0)
    opened = LLVMBackend(DEVICES[0])
    started = subprocess.Popen(["sleep", "60"])
    try:
        unpin(started.pid)
        assert os.sched_getaffinity(started.pid) == cpus
        assert usable_processors() == cpus
    finally:
        started.kill()
        started.wait()
        opened.close()
    unpin(started.pid)  # nothing to do where nothing is pinned


def test_a_device_of_another_machine_is_refused() -> None:
    with pytest.raises(DeviceError, match="seqtune devices"):
        LLVMBackend(replace(DEVICES[0], instruction_set="sve9"))
    with pytest.raises(DeviceError, match="threads"):
        LLVMBackend(replace(DEVICES[0], threads=4096))


def test_a_damaged_cache_of_rates_is_measured_again(tmp_path: Path) -> None:
    measured, cache = dict.fromkeys(MEASURED, 12.5), RateCache(tmp_path)
    (tmp_path / "cpu-rates.json").write_text("{ damaged")
    assert measured_rates("sse", 1, cache, lambda *_: measured) == measured
    assert measured_rates("sse", 1, cache, lambda *_: pytest.fail("measured twice")) == measured
    older = {key: [12.5, 3.5] for key in json.loads((tmp_path / "cpu-rates.json").read_text())}
    (tmp_path / "cpu-rates.json").write_text(json.dumps(older))
    assert measured_rates("sse", 1, cache, lambda *_: measured) == measured, (
        "a version before the probe kept two rates")


@pytest.mark.parametrize(("has", "sets"), [
    (("sse4.2", "fma"), ["sse"]), (("sse4.2", "avx2"), ["sse"]), (("sse4.2", "avx2", "fma"), ["avx2", "sse"]),
    (("avx2", "fma", "avx512f"), ["avx2"]), (("avx512f", "avx512vl"), ["avx512"]), (("neon",), ["neon"])])
def test_an_instruction_set_is_available_if_the_cpu_has_all_features_that_it_needs(
        has: tuple[str, ...], sets: list[str]) -> None:
    assert instruction_sets({**dict.fromkeys(has, True), "xop": False}) == sets


def test_devices_have_names_rates_and_caches() -> None:
    assert len(BY_NAME) == len(DEVICES)
    for device in DEVICES:
        assert device.name == f"llvm:{device.instruction_set}:{device.threads}"
        assert device.peak_gflops > 1
        assert device.bandwidth_gbs > 0.1
        assert min(device.l1_gbs, device.l2_gbs, device.gather_nanoseconds) > 0
        assert (device.wake_microseconds > 0) == (device.threads > 1)
        assert device.l1_bytes >= 8 << 10
