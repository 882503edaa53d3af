"""The opencl backend and its kernel families: right numbers everywhere, honest refusals, few builds."""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.errors import DeviceError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array, Implementation, Launch, Phase, Source
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel, resolve
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.tuner.backends import measured_rates as rates
from seqtune.tuner.backends.backend import BuildError, LaunchError
from seqtune.tuner.backends.opencl import backend as opencl
from seqtune.tuner.backends.opencl import discovery as opencl_facts
from seqtune.tuner.backends.opencl import pocl
from seqtune.tuner.backends.opencl.backend import OpenCLBackend
from tests.support.exactness import check

CPU = Device("opencl:cpu", "opencl", "skylake-avx512", "opencl-c-1.2", threads=2, compute_units=2, vector_bits=512,
             vector_registers=32, local_memory=1 << 20, max_work_group=4096)
GPU = Device("opencl:gpu", "opencl", "gpu", "opencl-c-1.2", threads=0, compute_units=100, vector_bits=128,
             vector_registers=64, local_memory=48 << 10, max_work_group=1024)


@pytest.fixture(scope="module")
def backend() -> Iterator[OpenCLBackend]:
    reason = opencl.unavailable()
    if reason is not None:
        pytest.skip(reason)
    found = opencl.devices()
    assert found, "OpenCL is available, and yet no device runs the simplest kernel"
    opened = OpenCLBackend(found[0])
    yield opened
    opened.close()


def _space(backend: OpenCLBackend, name: str, problem: Problem) -> SearchSpace:
    """With what only pays off on small caches."""
    return SearchSpace(kernel(name), problem, replace(backend.device, l2_bytes=0))


def _convolution(generator: np.random.Generator) -> Problem:
    def pick(*values: Any) -> Any:
        return values[generator.integers(len(values))]

    groups, r, s = pick(1, 1, 2, 3), pick(1, 2, 3, 5), pick(1, 1, 3, 4)
    epilogue = {"layout": "NHWC", "bias": "yes", "activation": "relu"} if pick(0, 1) else {}
    return Problem.make(
        "conv2d", n=pick(1, 2, 3), c=groups * pick(1, 3, 8, 64), k=groups * pick(1, 3, 5, 18, 72), groups=groups,
        r=r, s=s, h=pick(9, 13, 16), w=pick(9, 11, 30), pad_h=pick(0, 1, 2), pad_w=pick(0, 1, 2),
        stride_h=pick(1, 2, 3), stride_w=pick(1, 2), dilation_h=pick(1, 2), dilation_w=pick(1, 2), **epilogue)


DIRECT: list[dict[str, int | str]] = [
    {"vector": 16, "vectors_k": 1, "tile_w": 7, "tile_h": 1, "border": "peel", "chunk": 1, "piece": 0},
    {"vector": 16, "vectors_k": 1, "tile_w": 4, "tile_h": 1, "border": "peel", "chunk": 4, "piece": 32},
    {"vector": 8, "vectors_k": 2, "tile_w": 4, "tile_h": 2, "border": "copy", "chunk": 0, "piece": 32},
    {"vector": 8, "vectors_k": 2, "tile_w": 4, "tile_h": 2, "border": "copy", "inner": "row", "order": "channels"}]


def test_the_direct_convolution_is_right_on_odd_shapes(backend: OpenCLBackend) -> None:
    generator = np.random.default_rng(3)
    seen: set[tuple[str, int | str]] = set()
    for problem in [_convolution(generator) for _ in range(40)]:
        space = _space(backend, "opencl.direct", problem)
        chosen = {space.nearest(wish) for wish in DIRECT}
        check(backend, space.kernel, problem, chosen)
        seen.update(*(configuration.settings for configuration in chosen))
    assert seen >= {("border", "peel"), ("inner", "row"), ("piece", 32), ("chunk", 4), ("chunk", 0)}


@pytest.mark.parametrize("wish", DIRECT)
@pytest.mark.parametrize("shape", [
    {"w": 7, "s": 3, "pad_w": 1}, {"w": 14, "s": 3, "pad_w": 1, "stride_w": 2}, {"w": 15, "s": 2, "pad_w": 1},
    {"w": 13, "s": 3, "pad_w": 2, "stride_w": 2}, {"w": 9, "s": 3, "pad_w": 1, "dilation_w": 3, "dilation_h": 2},
    {"w": 5, "s": 5, "pad_w": 1, "stride_w": 2}])
def test_a_peeled_border_is_like_zeros(backend: OpenCLBackend, shape: dict[str, int],
                                       wish: dict[str, int | str]) -> None:
    for pad_h in (0, 3):
        problem = Problem.make("conv2d", **{"n": 2, "c": 64, "h": 9, "k": 20, "r": 3, "pad_h": pad_h, **shape})
        space = _space(backend, "opencl.direct", problem)
        check(backend, space.kernel, problem, [space.nearest(wish)])


IMPLICIT: list[dict[str, int | str]] = [
    {"local_a": a, "local_b": b, "vector": 16, "vectors_n": 1, "tile_m": 8, "group_m": m, "group_n": n,
     "block_k": 8 if a or b else 0, "order": order}
    for a, b, m, n, order in ((0, 0, 1, 1, "channels"), (1, 0, 4, 1, "pixels"), (0, 1, 4, 1, "pixels"),
                              (1, 1, 1, 4, "pixels"))]


def test_the_implicit_gemm_is_right_on_odd_shapes_with_and_without_local_memory(backend: OpenCLBackend) -> None:
    family = kernel("opencl.implicit_gemm")
    generator = np.random.default_rng(4)
    seen: set[tuple[int | str, int | str]] = set()
    for problem in [_convolution(generator) for _ in range(40)]:
        if family.why_not(problem, backend.device) is None:
            space = SearchSpace(family, problem, backend.device)
            chosen = {space.nearest(wish) for wish in IMPLICIT}
            check(backend, family, problem, chosen)
            seen.update((configuration["local_a"], configuration["local_b"]) for configuration in chosen)
    assert seen == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_any_configuration_of_a_convolution_is_right(backend: OpenCLBackend, layout: str) -> None:
    problem = Problem.make("conv2d", n=2, c=64, h=17, w=31, k=70, r=3, s=3, pad_h=1, pad_w=1, layout=layout)
    for name in ("opencl.direct", "opencl.implicit_gemm"):
        space = _space(backend, name, problem)
        check(backend, space.kernel, problem, space.sample(np.random.default_rng(5), 5))


def test_one_pixel_and_one_channel_are_enough(backend: OpenCLBackend) -> None:
    for problem in (Problem.make("conv2d", c=1, h=1, w=1, k=1, r=1, s=1),
                    Problem.make("conv2d", c=2, h=3, w=3, k=4, r=3, s=3, layout="NHWC"),
                    Problem.make("gemm", m=1, n=1, k=1)):
        family = kernel("opencl.gemm" if problem.type == "gemm" else "opencl.direct")
        check(backend, family, problem, [SearchSpace(family, problem, backend.device).default])


def test_the_matrix_product_is_right_on_odd_shapes(backend: OpenCLBackend) -> None:
    family = kernel("opencl.gemm")
    for m, n, k in ((1, 5, 3), (37, 50, 512), (64, 3, 70), (5, 200, 1)):
        for trans_a, trans_b, epilogue in (("no", "yes", False), ("yes", "no", True)):
            problem = Problem.make("gemm", m=m, n=n, k=k, trans_a=trans_a, trans_b=trans_b,
                                   bias="yes" if epilogue else "no", activation="relu" if epilogue else "none")
            space = _space(backend, "opencl.gemm", problem)
            check(backend, family, problem, [
                space.default, space.nearest({"order": "columns", "vectors_n": 2, "piece": 256})])


def test_equal_sources_are_built_once_for_many_problems(backend: OpenCLBackend) -> None:
    family = kernel("opencl.direct")
    backend.programs.clear()
    programs = []
    for size in (36, 65):
        problem = Problem.make("conv2d", n=size % 2 + 1, c=size, h=size, w=size, k=size, r=size % 4 + 1, s=3, pad_h=1)
        executable = backend.build(problem, family, SearchSpace(family, problem, backend.device).default)
        programs.append(next(iter(backend.programs.values())))
        executable.close()
    assert programs[0] is programs[1]
    assert len(backend.programs) == 1


# Planted kernels: each goes through the same seams as a real one.


class _Planted:
    includes = ""

    def __init__(self, body: str, local_size: int = 1) -> None:
        self.body, self.local_size = body, local_size

    def source(self, problem: Problem, device: Device, configuration: Configuration) -> Source:
        return Source("__kernel void planted(__global float *x, __global float *weights, __global float *bias,"
                      f" __global float *y, __global float *workspace, int n) {{ {self.body} }}")

    def launch(self, problem: Problem, device: Device, configuration: Configuration) -> Launch:
        return Launch((problem.size("m") * problem.size("n"),),
                      (Phase("planted", global_size=(self.local_size,), local_size=(self.local_size,)),), workspace=8)

    def packing(self, problem: Problem, configuration: Configuration) -> None:
        return None

    def pack(self, problem: Problem, device: Device, configuration: Configuration, weights: Array) -> Array:
        return weights


@pytest.fixture
def plant(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> Callable[..., opencl.OpenCLExecutable]:
    def build(body: str, local_size: int = 1) -> opencl.OpenCLExecutable:
        module = types.ModuleType("planted_kernel")
        module.it = _Planted(body, local_size)  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "planted_kernel", module)
        problem = Problem.make("gemm", m=4, n=4, k=4)
        family = replace(kernel("opencl.gemm"), implementation="planted_kernel:it")
        return backend.build(problem, family, Configuration.of("opencl.gemm", {}))

    return build


def test_a_kernel_that_does_not_compile_is_a_build_error(plant: Callable[..., Any]) -> None:
    with pytest.raises(BuildError, match="nonsense"):
        plant("nonsense;")


def test_a_work_group_beyond_the_limit_is_a_launch_error(plant: Callable[..., Any], backend: OpenCLBackend) -> None:
    with pytest.raises(LaunchError, match="work-group"):
        plant("y[0] = 0.0f;", local_size=backend.device.max_work_group * 2)


def test_local_memory_beyond_the_limit_is_a_launch_error(plant: Callable[..., Any], backend: OpenCLBackend) -> None:
    floats = backend.device.local_memory // 2
    with pytest.raises((LaunchError, BuildError)):  # some compilers refuse it themselves
        plant(f"__local float big[{floats}]; big[n] = n; barrier(CLK_LOCAL_MEM_FENCE); y[0] = big[n];")


@pytest.mark.parametrize(("write", "buffer"), [
    ("y[n]", "y"), ("y[-1]", "y"), ("x[-5]", "x"), ("weights[16]", "weights"), ("bias[4]", "bias"),
    ("workspace[8]", "workspace")])
def test_a_write_outside_a_buffer_is_seen(plant: Callable[..., Any], write: str, buffer: str) -> None:
    executable = plant(f"{write} = 1.0f;")
    executable.poison()
    assert executable.overrun() is None
    executable.run()
    assert executable.overrun() == buffer
    executable.poison()
    assert executable.overrun() is None
    executable.close()


def test_an_output_that_was_not_written_stays_poisoned(plant: Callable[..., Any]) -> None:
    executable = plant("y[0] = 1.0f;")
    executable.poison()
    executable.run()
    assert np.isnan(executable.output()).sum() == 15
    executable.close()


# Declarations, without a device.


@pytest.mark.parametrize("device", [CPU, replace(CPU, vector_bits=256, vector_registers=16), GPU])
@pytest.mark.parametrize("shape", [
    {"c": 64, "h": 56, "w": 56, "k": 64, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1},
    {"c": 64, "h": 56, "w": 56, "k": 64, "r": 1, "s": 1},
    {"c": 512, "h": 7, "w": 7, "k": 512, "r": 3, "s": 3, "pad_h": 1, "pad_w": 1}])
def test_spaces_are_worth_searching_and_can_be_exhausted(device: Device, shape: dict[str, int]) -> None:
    spaces = spaces_for(Problem.make("conv2d", **shape), device)
    assert 500 <= sum(map(len, spaces)) <= (2000 if device.threads else 8000)
    for space in spaces:
        assert space.default in space
        assert all(np.isfinite(column).all() for column in space.columns().values() if column.dtype.kind in "if")


def test_every_problem_has_a_configuration_on_every_kind_of_device() -> None:
    generator = np.random.default_rng(11)
    problems = [_convolution(generator) for _ in range(100)]
    problems += [Problem.make("gemm", m=m, n=n, k=2) for m in (1, 2, 3, 5, 100) for n in (1, 3, 4, 7, 8, 15, 16, 100)]
    for device in (CPU, replace(CPU, vector_bits=128, vector_registers=16), GPU):
        for problem in problems:
            family = kernel("opencl.gemm" if problem.type == "gemm" else "opencl.direct")
            assert len(SearchSpace(family, problem, device)) > 0, problem.brief()


def test_the_sources_of_many_problems_are_few() -> None:
    family = kernel("opencl.direct")
    implementation = resolve(str(family.implementation))
    builds = set()
    for size in range(14, 28):
        problem = Problem.make("conv2d", n=size % 3 + 1, c=4, h=2 * size, w=size, k=64, r=3, s=size % 4 + 1, pad_h=1)
        for configuration in SearchSpace(family, problem, CPU):
            builds.add((_source(implementation, problem, configuration), configuration["work_group"]))
    assert len(builds) <= 300


def _source(implementation: object, problem: Problem, configuration: Configuration) -> Source:
    found: Implementation = implementation  # type: ignore[assignment]
    return found.source(problem, CPU, configuration)


@pytest.mark.parametrize(("features", "reason"), [({"dtype": "fp16"}, "only fp32"),
                                                  ({"direction": "backward_data"}, "only the forward direction")])
def test_what_is_not_solved_is_refused_with_a_reason(features: dict[str, str], reason: str) -> None:
    problem = Problem.make("conv2d", c=4, h=4, w=4, k=4, r=1, s=1, **features)
    assert reason in str(kernel("opencl.direct").why_not(problem, CPU))


# Discovery.


def test_without_ld_pocl_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setenv("PATH", str(tmp_path))
    reason = pocl.unavailable()
    assert reason is not None
    assert "binutils" in reason
    platforms = opencl_facts.load().get_platforms()
    if all(platform.name == pocl.NAME for platform in platforms):
        assert opencl.unavailable() == reason
        assert opencl.devices() == []


def test_devices_have_facts_and_unique_names(backend: OpenCLBackend) -> None:
    found = opencl.devices()
    assert len({device.name for device in found}) == len(found)
    for device in found:
        assert device.name.startswith("opencl:")
        assert min(device.peak_gflops, device.bandwidth_gbs, device.max_work_group) > 0
        assert device.vector_bits in (128, 256, 512)
        assert Device.from_json(json.loads(json.dumps(device.to_json()))) == device
    assert found == opencl.devices()


def test_an_unknown_device_is_refused_with_those_that_are_here(backend: OpenCLBackend) -> None:
    with pytest.raises(DeviceError, match=backend.device.name):
        OpenCLBackend(replace(CPU, name="opencl:none"))


def test_a_device_that_fails_while_it_is_looked_at_takes_no_other_down(monkeypatch: pytest.MonkeyPatch) -> None:
    class Error(Exception):
        pass

    def facts(cl: Any, name: str, platform: Any, handle: Any) -> Device:
        if handle.name == "broken":
            raise Error("clCreateContext failed: OUT_OF_HOST_MEMORY\nand more")
        return replace(GPU, name=name)

    handles = [types.SimpleNamespace(name=name, type=4) for name in ("broken", "fine")]
    platform = types.SimpleNamespace(name="a vendor's", get_devices=lambda: handles)
    cl = types.SimpleNamespace(Error=Error, device_type=types.SimpleNamespace(GPU=4), get_platforms=lambda: [platform])
    monkeypatch.setattr(opencl_facts, "_facts", facts)
    monkeypatch.setattr(opencl_facts, "_refused", [])
    assert list(opencl_facts._discover(cl)) == ["opencl:fine"]
    assert opencl_facts._refused == ["broken: clCreateContext failed: OUT_OF_HOST_MEMORY"]


def test_where_the_cache_folder_cannot_be_written_pocl_gets_a_temporary_one(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(pocl, "user_cache_dir", lambda _: str(tmp_path / "file"))  # no folder can be made in a file
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    monkeypatch.setattr("atexit.register", lambda *_, **__: None)
    monkeypatch.setenv("POCL_CACHE_DIR", "")
    monkeypatch.delenv("POCL_CACHE_DIR")
    pocl.prepare()
    assert os.environ["POCL_CACHE_DIR"] == str(tmp_path)


@pytest.mark.parametrize("damage", ["", "[1]", '{"key": 5}', '{"key": {"peak_gflops": "much"}}', "\x00"])
def test_a_damaged_cache_of_rates_is_measured_anew(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str) -> None:
    measured = {"vector_bits": 256.0, "peak_gflops": 2.0, "bandwidth_gbs": 3.0}
    monkeypatch.setattr(rates, "user_cache_dir", lambda _: str(tmp_path))
    monkeypatch.setattr(opencl_facts, "_measure", lambda *_: measured)
    (tmp_path / "opencl.json").write_text(damage)
    assert opencl_facts._rates(None, None, "key") == measured
    monkeypatch.setattr(opencl_facts, "_measure", lambda *_: pytest.fail("it is in the cache"))
    assert opencl_facts._rates(None, None, "key") == measured
    assert [path.name for path in tmp_path.iterdir()] == ["opencl.json"]


def test_a_cpu_that_llvm_does_not_know_gets_the_name_of_one_that_it_does() -> None:
    name = ctypes.create_string_buffer(b"generic")
    structure = ctypes.create_string_buffer(8192)
    struct.pack_into("<Q", structure, 640, ctypes.addressof(name))
    struct.pack_into("<Q", structure, 1040, ctypes.addressof(name))  # somebody else's, behind the structure
    assert pocl.repair("pthread-x86_64-unknown-linux-gnu-generic", ctypes.addressof(structure)) == pocl.substitute()
    pointer, = struct.unpack_from("<Q", structure, 640)
    assert ctypes.string_at(pointer) == pocl.substitute().encode()
    assert pocl.repair("pthread-x86_64-unknown-linux-gnu-znver3", 0) == "znver3"
