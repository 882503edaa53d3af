"""The cuda backend on a stand-in for pycuda and the driver: buffers, element types, launches, times and failures."""

from __future__ import annotations

import ctypes.util
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from seqtune.data.record import Status
from seqtune.errors import DeviceError, MissingPackageError, UnavailableError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.launches.call import BufferArgument, Call, CallStep, TensorMapArgument
from seqtune.kernels.launches.entry_arguments import entry_arguments
from seqtune.kernels.launches.implementation import Array, KernelSource
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.backend import DeviceLost, LaunchError
from seqtune.tuner.backends.called_executable import CalledExecutable
from seqtune.tuner.backends.cuda import compiler
from seqtune.tuner.backends.cuda.backend import CudaBackend
from seqtune.tuner.backends.cuda.discovery import GpuDiscovery
from seqtune.tuner.backends.cuda.driver import load
from seqtune.tuner.backends.cuda.libcuda import LibCuda
from seqtune.tuner.measuring.timing import Options, check_and_time, prepare
from tests.support.cuda.fake_pycuda import KERNEL_SECONDS, MAP_BYTES, FakeCuda, FakeLibCuda, discovery_of

TEXT = """
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void __launch_bounds__(128) product(MAPS const TYPE *x, const TYPE *w, const TYPE *b, TYPE *y,
    float *workspace, int m, int n, int k) { extern __shared__ float part[]; part[threadIdx.x] = m; y[0] = part[n]; }
"""
STORED = {"fp32": np.float32, "fp16": np.float16, "bf16": np.uint16}


class Product:
    """y = x @ packed weights; the packed weights are the transposed ones."""

    includes = "everything"

    def call(self, problem: Problem, device: Device, configuration: Configuration) -> Call:
        declared = "const __grid_constant__ Map map," if configuration["maps"] else ""
        kind = "float" if problem["dtype"] == "fp32" else "short"
        threads = configuration.number("threads")
        m, n, k = (problem.size(name) for name in ("m", "n", "k"))
        integers = (m, n) if configuration["deed"] == "arguments" else (m, n, k)
        operands = entry_arguments(problem, integers, Turned(), workspace=100)
        weights = operands[1]
        assert isinstance(weights, BufferArgument)
        maps = (TensorMapArgument(weights, (k, n), (k,), (8, 8), 64),) if configuration["maps"] else ()
        entry = "missing" if configuration["deed"] == "entry" else "product"
        step = CallStep(entry, (*maps, *operands), (4 * threads,), (threads,), configuration.number("shared"),
                        2 if configuration["deed"] == "cluster" else 1)
        return Call(KernelSource(TEXT, (f"-DTYPE={kind}", f"-DMAPS={declared}")), (step,))


@dataclass(frozen=True)
class Turned:
    """Transposes the weights."""

    def pack(self, array: Array) -> Array:
        return np.ascontiguousarray(array.T)


PRODUCT = Product()
KERNEL = Kernel.of(
    name="cuda.product", operation="gemm", meaning="planted",
    parameters=(Parameter("threads", (128, 256, 2048)), Parameter("shared", (512, 1 << 16, 1 << 20)),
                Parameter("maps", (0, 1)), Parameter("deed", ("good", "entry", "cluster", "arguments"))),
    default={"threads": 128, "shared": 512, "maps": 0, "deed": "good"},
    implementation=f"{__name__}:PRODUCT")


class Machine:
    """The stand-in with the kernel `product`, which may do a mischief."""

    def __init__(self, folder: Path) -> None:
        self.cuda = FakeCuda({"product": self.product})
        self.library = FakeLibCuda(self.cuda)
        self.gpus = discovery_of(self.cuda, self.library, folder)
        self.mischief = ""
        self.dtype = "fp32"

    def product(self, cuda: FakeCuda, arguments: bytes) -> None:
        maps = len(arguments) - struct.calcsize("<5Q3i")
        assert maps in (0, MAP_BYTES)
        x, w, _, y, workspace, m, n, k = struct.unpack_from("<5Q3i", arguments, maps)
        stored = STORED[self.dtype]
        left, right = (cuda.view(at, shape, stored) for at, shape in ((x, (m, k)), (w, (n, k))))
        if self.dtype == "bf16":
            left, right = ((half.astype(np.uint32) << 16).view(np.float32) for half in (left, right))
        result = left.astype(np.float32) @ right.astype(np.float32).T
        if self.dtype == "bf16":
            result = ((result.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
        if self.mischief != "nothing":
            cuda.view(y, (m, n), stored)[:] = result.astype(stored)
        if self.mischief == "after":
            cuda.view(workspace + 400, (1,), np.float32)[0] = 1.0
        if self.mischief == "before":
            cuda.view(x - 2, (1,), np.uint16)[0] = 7
        if self.mischief == "lost":
            cuda.broken = "an illegal memory access was encountered"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Machine:
    try:
        compiler.version()
    except UnavailableError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
    return Machine(tmp_path)


@pytest.fixture
def backend(machine: Machine) -> Iterator[CudaBackend]:
    opened = CudaBackend(machine.gpus.devices()[0], machine.gpus)
    yield opened
    opened.close()
    if not machine.cuda.broken:
        assert machine.cuda.memory == {}  # everything was freed


def problem_of(dtype: str = "fp32") -> Problem:
    return Problem.make("gemm", m=7, n=5, k=3, dtype=dtype)


def built(backend: CudaBackend, dtype: str = "fp32",
          settings: Mapping[str, int | str] | None = None) -> CalledExecutable:
    problem = problem_of(dtype)
    return backend.build(problem, KERNEL, SearchSpace(KERNEL, problem, backend.device).nearest(
        {**dict(KERNEL.default), **(settings or {})}))


def test_the_drivers_facts_make_the_devices_and_equal_models_are_numbered(machine: Machine) -> None:
    machine.cuda.attributes |= {"MULTIPROCESSOR_COUNT": 130}
    first, second = machine.gpus.devices()
    assert (first.name, second.name) == ("cuda:h200", "cuda:h200-2")
    assert machine.gpus.number_of(second.name) == 1
    assert (first.compute_units, first.local_memory, first.peak_gflops) == (130, 227 << 10, 60_000.0)
    assert first.names()["clock_mhz"] == 1980
    assert first.names()["mma_gflops"] == 600_000.0
    assert "NVRTC 13" in first.toolchain
    assert "L2 flushed" in first.toolchain
    assert Device.from_json(first.to_json()) == first


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_operands_are_stored_in_the_element_type_and_the_constant_one_packed(
        dtype: str, machine: Machine, backend: CudaBackend) -> None:
    machine.dtype = dtype
    executable = built(backend, dtype)
    operands, expected = prepare(problem_of(dtype))
    executable.load(operands)
    executable.poison()
    assert np.isnan(executable.outputs()["y"]).all()
    executable.run()
    assert expected.error(executable.outputs()["y"]) < expected.tolerance
    assert executable.overrun() is None
    assert executable.resources is not None
    assert executable.resources.registers > 0
    executable.close()
    executable.close()


@pytest.mark.parametrize(("mischief", "status", "message"), [
    ("", "correct", ""), ("nothing", "correctness", "NaN in the output"),
    ("after", "correctness", "wrote outside its buffer: workspace"),
    ("before", "correctness", "wrote outside its buffer: x")])
def test_writes_outside_the_buffers_and_missing_ones_are_noticed(
        mischief: str, status: str, message: str, machine: Machine, backend: CudaBackend) -> None:
    machine.mischief = mischief
    executable = built(backend)
    operands, expected = prepare(problem_of())
    measurement = check_and_time(executable, operands, expected, Options(samples=2))
    assert measurement.status.value == status
    assert measurement.message.startswith(message)
    assert executable.resources is not None
    assert measurement.resources == ResourceUsage(executable.resources.registers, 512, 0, 1.0)
    executable.close()


def test_times_are_the_gpus_and_leave_out_the_flush_of_its_cache(machine: Machine, backend: CudaBackend) -> None:
    executable = built(backend)
    for launches in (1, 3, 10, 25):
        assert executable.time(launches) == pytest.approx(launches * KERNEL_SECONDS)
    assert len(machine.library.graphs) == 2  # of 1 and of 10 launches
    operands, expected = prepare(problem_of())
    measurement = check_and_time(executable, operands, expected, Options(samples=3))
    assert measurement.status is Status.CORRECT
    assert measurement.samples == pytest.approx([KERNEL_SECONDS] * 3)
    executable.close()


def test_more_shared_memory_than_usual_is_asked_for_and_tensor_maps_come_first(
        machine: Machine, backend: CudaBackend) -> None:
    executable = built(backend, "bf16", {"shared": 1 << 16, "maps": 1})
    machine.dtype = "bf16"
    executable.run()
    assert ("dynamic", 1 << 16) in machine.cuda.log
    assert ("map", ("weights", "bf16")) in machine.cuda.log
    assert ("product", ((4, 1, 1), (128, 1, 1), 1 << 16)) in machine.cuda.log
    executable.close()


@pytest.mark.parametrize(("settings", "message"), [
    ({"threads": 2048}, "a block of 2048 threads exceeds 128"),
    ({"threads": 256}, "a block of 256 threads exceeds 128"),
    ({"shared": 1 << 20}, "1048576 bytes of shared memory exceed the device's 232448"),
    ({"deed": "cluster"}, "launched in clusters of 2 and built for 1"),
    ({"deed": "arguments"}, "takes 52 bytes of arguments, and 48 are passed")])
def test_launches_beyond_the_limits_never_reach_the_driver(
        settings: dict[str, int | str], message: str, machine: Machine, backend: CudaBackend) -> None:
    with pytest.raises(LaunchError, match=message) as caught:
        built(backend, settings=settings)
    resources = caught.value.resources
    assert resources is not None
    assert resources.shared_bytes == settings.get("shared", 512)
    assert (resources.occupancy == 0) == (settings in ({"threads": 2048}, {"shared": 1 << 20}))
    assert "product" not in dict(machine.cuda.log)


def test_a_build_launches_nothing_because_what_it_compiled_is_complete(machine: Machine, backend: CudaBackend) -> None:
    executable = built(backend)
    assert "product" not in dict(machine.cuda.log)
    executable.run()
    assert "product" in dict(machine.cuda.log)
    executable.close()


def test_a_refused_launch_fails_and_the_next_one_may_work(machine: Machine, backend: CudaBackend) -> None:
    executable = built(backend)
    machine.cuda.refused = "too many resources requested for launch"
    with pytest.raises(LaunchError, match="too many resources"):
        executable.run()
    with pytest.raises(LaunchError, match="too many resources"):  # while a graph is captured, too
        executable.time(1)
    machine.cuda.refused = ""
    executable.run()
    assert executable.time(1) == pytest.approx(KERNEL_SECONDS)
    executable.close()


def test_a_broken_context_is_a_lost_device(machine: Machine, backend: CudaBackend) -> None:
    executable = built(backend)
    operands, expected = prepare(problem_of())
    machine.mischief = "lost"
    with pytest.raises(DeviceLost, match="illegal memory access"):
        check_and_time(executable, operands, expected, Options())
    executable.close()  # raises nothing


def test_a_gpu_of_another_machine_is_refused(machine: Machine) -> None:
    other = replace(machine.gpus.devices()[0], name="cuda:elsewhere")
    with pytest.raises(DeviceError, match="no device 'cuda:elsewhere'; found cuda:h200, cuda:h200-2"):
        CudaBackend(other, machine.gpus)


def test_a_missing_driver_and_a_missing_pycuda_are_one_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> LibCuda:
        raise UnavailableError("no NVIDIA driver (libcuda.so.1) is installed here")

    assert GpuDiscovery(partial(load, no_driver)).unavailable() == "no NVIDIA driver (libcuda.so.1) is installed here"
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)
    without_pycuda = GpuDiscovery(partial(load, lambda: LibCuda(ctypes.util.find_library("c") or "")))
    reason = without_pycuda.unavailable()
    assert reason is not None
    assert "pycuda is not installed" in reason
    assert "pip install 'seqtune[cuda]'" in reason
    assert "\n" not in reason
    assert without_pycuda.devices() == []


def test_a_machine_without_driver_or_compiler_is_told_which_extra_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = GpuDiscovery(partial(load, partial(LibCuda, "libcuda-that-is-nowhere.so.1")))
    assert nowhere.unavailable() == (
        "no NVIDIA driver (libcuda-that-is-nowhere.so.1) is installed here; pip install 'seqtune[nvrtc]' to compile "
        "without one, 'seqtune[cuda]' to measure with one")
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingPackageError,
                       match=r"cuda-bindings is not installed .*: pip install 'seqtune\[nvrtc\]'$"):
        compiler.load()
