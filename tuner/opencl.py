"""The opencl backend: any OpenCL device, through pyopencl. PoCL from pip makes every CPU one.

Programs are built once per Source and process. PoCL compiles a kernel again for each work-group shape when it is first
launched, so `build` launches once as well, and counts it in `build_seconds`.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_dir

from seqtune.errors import DeviceError, UnavailableError
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import Array, Implementation, Launch, Source
from seqtune.kernels.kernel import Configuration, Kernel, resolve
from seqtune.kernels.problem import Problem
from seqtune.tuner import pocl
from seqtune.tuner.backend import BuildError, LaunchError
from seqtune.tuner.llvm_facts import caches
from seqtune.tuner.reference import operand_shapes

CANARY = np.uint32(0x7FC0CAFE)  # a NaN that no kernel computes
MARGIN = 1024  # floats of canary on both sides of every buffer; a multiple of any device's alignment
_BUFFERS = ("x", "weights", "bias", "y", "workspace")

_found: dict[str, tuple[Device, Any]] = {}  # name -> facts and pyopencl device, once looked for
_refused: list[str] = []  # why devices that were seen are not among them
_looked = False


def _opencl() -> Any:
    """pyopencl, with PoCL's environment set before it loads. Raises UnavailableError."""
    pocl.prepare()
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # drivers have caches of their own
    try:
        import pyopencl
    except ImportError as error:
        raise UnavailableError(f"pyopencl is not installed ({error}): pip install 'pyopencl[pocl]'") from None
    return pyopencl


def unavailable() -> str | None:
    """Why there is no OpenCL device here, in one line; None where there is one."""
    try:
        cl = _opencl()
        platforms = cl.get_platforms()
    except UnavailableError as error:
        return str(error)
    except Exception as error:  # the loader has no platform: an exception of pyopencl's own
        return f"no OpenCL platform was found ({_one_line(error)}): pip install 'pyopencl[pocl]'"
    if all(platform.name == pocl.NAME for platform in platforms) and (reason := pocl.unavailable()) is not None:
        return reason
    _look(cl)
    if _found:
        return None
    return f"no OpenCL device runs a kernel: {_refused[0]}" if _refused else "no OpenCL platform has a device"


def devices() -> list[Device]:
    """Every OpenCL device, GPUs first; measured rates come from a cache after the first time."""
    return [] if unavailable() is not None else [device for device, _ in _found.values()]


def _look(cl: Any) -> None:
    global _looked
    if not _looked:
        _found.update(_discover(cl))
        _looked = True


def _discover(cl: Any) -> dict[str, tuple[Device, Any]]:
    handles = [(platform, handle) for platform in cl.get_platforms() for handle in _devices_of(cl, platform)
               if platform.name != pocl.NAME or pocl.unavailable() is None]
    handles.sort(key=lambda pair: (not pair[1].type & cl.device_type.GPU, pair[0].name != pocl.NAME))
    found: dict[str, tuple[Device, Any]] = {}
    for platform, handle in handles:
        base = "cpu" if platform.name == pocl.NAME else re.sub(r"[^a-z0-9]+", "-", handle.name.lower()).strip("-")
        name, count = f"opencl:{base}", 2
        while name in found:
            name, count = f"opencl:{base}-{count}", count + 1
        try:
            found[name] = _facts(cl, name, platform, handle), handle
        except (BuildError, cl.Error) as error:  # a device that cannot run the simplest kernel is none
            _refused.append(f"{handle.name.strip()}: {_one_line(error)}")
    return found


def _devices_of(cl: Any, platform: Any) -> list[Any]:
    with suppress(cl.Error):
        return list(platform.get_devices())
    return []


def _facts(cl: Any, name: str, platform: Any, handle: Any) -> Device:
    cpu = bool(handle.type & cl.device_type.CPU)
    architecture = re.sub(r"[^a-z0-9]+", "-", handle.name.lower()).strip("-")
    if platform.name == pocl.NAME:
        architecture = pocl.repair(handle.version.split()[-1] if "HSTR" in handle.version else
                                   handle.version + handle.driver_version, handle.int_ptr)
    version = re.search(r"(PoCL \S+).*?(LLVM [\d.]+)", platform.version)  # else the whole line
    toolchain = " ".join(version.groups() if version else (platform.name, platform.version, handle.driver_version))
    toolchain = f"{toolchain} for {architecture}"
    rates = _rates(cl, handle, f"{handle.name} | {toolchain} | {handle.max_compute_units}")
    return Device(
        name=name, backend="opencl", architecture=architecture, instruction_set="opencl-c-1.2",
        model=handle.name.removeprefix("pthread-").strip(), threads=handle.max_compute_units if cpu else 0,
        compute_units=handle.max_compute_units,
        vector_bits=int(rates["vector_bits"]) if cpu else 128,  # a GPU's widest load is float4
        vector_registers=(32 if rates["vector_bits"] == 512 else 16) if cpu else 64,
        l1_bytes=caches()[1] if cpu else 0, l2_bytes=caches()[2] if cpu else handle.global_mem_cache_size,
        l3_bytes=caches()[3] if cpu else 0,
        local_memory=handle.local_mem_size, max_work_group=handle.max_work_group_size,
        peak_gflops=rates["peak_gflops"], bandwidth_gbs=rates["bandwidth_gbs"], toolchain=toolchain)


_PROBE = """
#ifdef __AVX512F__
#define BITS 512.0f
#define WIDE __attribute__((min_vector_width(512)))
#elif defined(__AVX__)
#define BITS 256.0f
#define WIDE
#else
#define BITS 128.0f
#define WIDE
#endif
__kernel WIDE void peak(__global float *y, int count) {
  const float s = y[0];
  float16 w = (float16)(s), a = w, b = w + 1.0f, c = w + 2.0f, d = w + 3.0f, e = w + 4.0f, f = w + 5.0f, g = w + 6.0f,
          h = w + 7.0f;
  for (int i = 0; i < count; i++) {
    a += w * a; b += w * b; c += w * c; d += w * d; e += w * e; f += w * f; g += w * g; h += w * h;
  }
  a = a + b + c + d + e + f + g + h;
  y[get_global_id(0) + 1] = s * (a.s0 + a.s5 + a.sa + a.sf) + BITS;  // s is 0, which the compiler does not know
}
__kernel WIDE void sweep(__global const float16 *x, __global float *y, int count) {
  float16 a = 0.0f, b = 0.0f;
  x += get_global_id(0) * 2;
  for (int i = 0; i < count; i++, x += 2 * get_global_size(0)) { a += x[0]; b += x[1]; }
  a += b;
  y[get_global_id(0) + 1] = a.s0 + a.s5 + a.sa + a.sf;
}
"""


def _rates(cl: Any, handle: Any, key: str) -> dict[str, float]:
    """Measured peak and bandwidth and the width of its vectors, from the cache where that is known already."""
    path = Path(user_cache_dir("seqtune")) / "opencl.json"
    cached: dict[str, dict[str, float]] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):
        cached = {str(name): {fact: float(value) for fact, value in rates.items()}
                  for name, rates in json.loads(path.read_text()).items()}
    names = {"vector_bits", "peak_gflops", "bandwidth_gbs"}
    if names == set(cached.get(key, ())):
        return cached[key]
    cached[key] = _measure(cl, handle)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(json.dumps(cached, indent=1))
        scratch.replace(path)
    return cached[key]


def _measure(cl: Any, handle: Any) -> dict[str, float]:
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    cpu = bool(handle.type & cl.device_type.CPU)
    items, loops = (8 * handle.max_compute_units, 100_000) if cpu else (2048 * handle.max_compute_units, 2_000)
    floats = min(1 << 25, handle.max_mem_alloc_size // 4)  # 128 MiB, more than caches hold
    try:
        program = cl.Program(context, _PROBE).build(options=["-cl-fast-relaxed-math", "-cl-mad-enable"])
        y = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * (items + 1))
        x = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * floats)
        cl.enqueue_fill_buffer(queue, y, np.float32(0), 0, 4 * (items + 1))
        cl.enqueue_fill_buffer(queue, x, np.float32(0), 0, 4 * floats)
        local = (1,) if cpu else (64,)
        steps = floats // (32 * items)

        def best(entry: str, *arguments: Any) -> float:
            kernel = cl.Kernel(program, entry)
            samples = []
            for _ in range(20):
                begin = time.perf_counter()
                kernel(queue, (items,), local, *arguments)
                queue.finish()
                samples.append(time.perf_counter() - begin)
            return min(samples)

        peak = best("peak", y, np.int32(loops))
        bits = np.empty(2, np.float32)
        cl.enqueue_copy(queue, bits, y)
        sweep = best("sweep", x, y, np.int32(steps))
    except cl.Error as error:
        raise BuildError(_one_line(error)) from None
    return {"vector_bits": float(round(float(bits[1]) / 128) * 128),
            "peak_gflops": round(items * loops * 256 / peak / 1e9, 1),
            "bandwidth_gbs": round(steps * items * 128 / sweep / 1e9, 1)}


def _one_line(error: Exception) -> str:
    """The line that says most: the compiler's first `error:`, else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else type(error).__name__)[:300]


class OpenCLBackend:
    """Builds and runs kernels on one OpenCL device. Raises DeviceError where it is not here."""

    def __init__(self, device: Device) -> None:
        names = [found.name for found in devices()]
        if device.name not in names:
            raise DeviceError(f"no device {device.name!r:.60}; found {', '.join(names) or unavailable()}")
        self.device = device
        self.cl = _opencl()
        self.handle = _found[device.name][1]
        self.context = self.cl.Context([self.handle])
        self.queue = self.cl.CommandQueue(self.context)
        self.programs: dict[Source, Any] = {}

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> OpenCLExecutable:
        """An executable for this problem, launched once. Raises BuildError, LaunchError."""
        assert kernel.implementation is not None
        implementation: Implementation = resolve(kernel.implementation)  # type: ignore[assignment]
        begin = time.perf_counter()
        program = self.program(implementation.source(problem, self.device, configuration))
        launch = implementation.launch(problem, self.device, configuration)
        executable = OpenCLExecutable(self, problem, configuration, implementation, program, launch)
        try:
            executable.run()
        except (BuildError, LaunchError):
            executable.close()
            raise
        executable.build_seconds = time.perf_counter() - begin
        return executable

    def program(self, source: Source) -> Any:
        """The built program of a source, from this process's earlier builds where it is among them."""
        if source not in self.programs:
            try:
                self.programs[source] = self.cl.Program(self.context, source.text).build(options=list(source.options))
            except self.cl.Error as error:
                raise BuildError(_one_line(error)) from None
        return self.programs[source]

    def close(self) -> None:
        """Free the programs."""
        self.programs.clear()
        self.queue.finish()


class OpenCLExecutable:
    """Buffers and kernel objects of one problem."""

    def __init__(self, backend: OpenCLBackend, problem: Problem, configuration: Configuration,
                 implementation: Implementation, program: Any, launch: Launch) -> None:
        self.backend, self.problem, self.configuration = backend, problem, configuration
        self.implementation = implementation
        self.build_seconds = 0.0
        x, weights, bias, self.shape = operand_shapes(problem)
        packed = implementation.pack(problem, backend.device, configuration, np.zeros(weights, np.float32))
        cl = backend.cl
        self.sizes = dict(zip(_BUFFERS, (int(np.prod(x)), packed.size, bias[0], int(np.prod(self.shape)),
                                         launch.workspace), strict=True))
        self.whole: dict[str, Any] = {}
        self.inner: dict[str, Any] = {}
        self.steps: list[tuple[Any, tuple[int, ...], tuple[int, ...]]] = []
        try:
            for name, size in self.sizes.items():
                self.whole[name] = cl.Buffer(backend.context, cl.mem_flags.READ_WRITE, 4 * (size + 2 * MARGIN))
            self.inner = {name: whole.get_sub_region(4 * MARGIN, 4 * max(1, self.sizes[name]))
                          for name, whole in self.whole.items()}
            arguments = [self.inner[name] for name in _BUFFERS] + [np.int32(value) for value in launch.arguments]
            for phase in launch.phases:
                kernel = cl.Kernel(program, phase.entry)
                self._check(kernel, phase.local_size)
                kernel.set_args(*arguments)
                self.steps.append((kernel, phase.global_size, phase.local_size))
        except cl.Error as error:
            self.close()
            raise LaunchError(_one_line(error)) from None
        for name in _BUFFERS:  # zeros: the first launch, in `build`, meets no odd numbers
            self._paint(name, 0, self.sizes[name] + 2 * MARGIN, np.uint32(0))

    def _check(self, kernel: Any, local_size: tuple[int, ...]) -> None:
        """PoCL enforces neither limit, and another device would refuse."""
        cl, device = self.backend.cl, self.backend.device
        if int(np.prod(local_size)) > device.max_work_group:
            raise LaunchError(f"a work-group of {local_size} is more than the device's {device.max_work_group}")
        used = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, self.backend.handle)
        if used > device.local_memory:
            raise LaunchError(f"{used} bytes of local memory are more than the device's {device.local_memory}")

    def load(self, x: Array, weights: Array, bias: Array | None) -> None:
        """Copy the operands in; the weights are packed on the way."""
        packed = self.implementation.pack(self.problem, self.backend.device, self.configuration, weights)
        for name, values in (("x", x), ("weights", packed), ("bias", bias)):
            if values is not None:
                self.backend.cl.enqueue_copy(self.backend.queue, self.inner[name],
                                             np.ascontiguousarray(values, np.float32))
        self.backend.queue.finish()

    def poison(self) -> None:
        """NaN into output and workspace, canaries around every buffer."""
        for name, size in self.sizes.items():
            if name in ("y", "workspace"):
                self._paint(name, 0, size + 2 * MARGIN, CANARY)
            else:
                self._paint(name, 0, MARGIN, CANARY)
                self._paint(name, MARGIN + size, MARGIN, CANARY)
        self.backend.queue.finish()

    def _paint(self, name: str, begin: int, count: int, pattern: np.uint32) -> None:
        self.backend.cl.enqueue_fill_buffer(self.backend.queue, self.whole[name], pattern, 4 * begin, 4 * count)

    def run(self) -> None:
        """All phases, finished on return. Raises LaunchError (BuildError where PoCL compiles late and fails)."""
        cl, queue = self.backend.cl, self.backend.queue
        try:
            for kernel, global_size, local_size in self.steps:
                cl.enqueue_nd_range_kernel(queue, kernel, global_size, local_size)
            queue.finish()
        except cl.Error as error:
            failed = BuildError if error.code == cl.status_code.BUILD_PROGRAM_FAILURE else LaunchError
            raise failed(_one_line(error)) from None

    def output(self) -> Array:
        """A copy of y."""
        y = np.empty(self.shape, np.float32)
        self.backend.cl.enqueue_copy(self.backend.queue, y, self.inner["y"])
        return y

    def overrun(self) -> str | None:
        """The first buffer with a changed canary."""
        found = np.empty(MARGIN, np.uint32)
        for name, size in self.sizes.items():
            for begin in (0, MARGIN + size):
                self.backend.cl.enqueue_copy(self.backend.queue, found, self.whole[name], src_offset=4 * begin)
                if (found != CANARY).any():
                    return name
        return None

    def close(self) -> None:
        """Free the buffers."""
        self.steps = []
        for buffer in (*self.inner.values(), *self.whole.values()):
            buffer.release()
        self.inner, self.whole = {}, {}
