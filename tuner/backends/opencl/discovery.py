"""Discovery of OpenCL devices: loads the driver and lists the devices with their facts and measured rates."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from seqtune.errors import UnavailableError, one_line
from seqtune.kernels.device import Device

from ..backend import BuildError
from ..llvm.facts import caches
from ..measured_rates import cached_rates
from . import pocl


@dataclass(frozen=True, slots=True)
class Discovery:
    """The OpenCL devices of this machine."""

    devices: Mapping[str, tuple[Device, Any]]  # name -> (facts, pyopencl's device)
    refused: tuple[str, ...]  # a reason for each device that cannot be used


def load() -> Any:
    """Set PoCL's environment and import pyopencl. Raises UnavailableError."""
    pocl.prepare()
    os.environ.setdefault("PYOPENCL_NO_CACHE", "1")  # drivers have caches of their own
    try:
        import pyopencl
    except ImportError as error:
        raise UnavailableError(f"pyopencl is not installed ({error}): pip install 'pyopencl[pocl]'") from None
    return pyopencl


def unavailable() -> str | None:
    """The reason in one line why this machine has no OpenCL device, or None."""
    try:
        cl = load()
        platforms = cl.get_platforms()
    except UnavailableError as error:
        return str(error)
    except Exception as error:  # without any platform, pyopencl raises an exception of its own
        return f"no OpenCL platform was found ({error_line(error)}): pip install 'pyopencl[pocl]'"
    if all(platform.name == pocl.NAME for platform in platforms) and (reason := pocl.unavailable()) is not None:
        return reason
    discovery = _discover()
    if discovery.devices:
        return None
    if discovery.refused:
        return f"no OpenCL device runs a kernel: {discovery.refused[0]}"
    return "no OpenCL platform has a device"


def devices() -> list[Device]:
    """All OpenCL devices, GPUs first. Rates are measured once, and later read from the user's cache folder."""
    return [] if unavailable() is not None else [device for device, _ in _discover().devices.values()]


def handle(name: str) -> Any:
    """pyopencl's object of the device with this name, one of `devices`."""
    return _discover().devices[name][1]


@lru_cache(maxsize=1)
def _discover() -> Discovery:
    """Discover the devices once per process, because opening all platforms and measuring takes seconds."""
    return discover(load())


def discover(cl: Any) -> Discovery:
    """Find every device of pyopencl's platforms that can run a kernel, GPUs first."""
    handles = [(platform, handle) for platform in cl.get_platforms() for handle in _devices_of(cl, platform)
               if platform.name != pocl.NAME or pocl.unavailable() is None]
    handles.sort(key=lambda pair: (not pair[1].type & cl.device_type.GPU, pair[0].name != pocl.NAME))
    usable: dict[str, tuple[Device, Any]] = {}
    refused: list[str] = []
    for platform, handle in handles:
        base = "cpu" if platform.name == pocl.NAME else re.sub(r"[^a-z0-9]+", "-", handle.name.lower()).strip("-")
        name, count = f"opencl:{base}", 2
        while name in usable:
            name, count = f"opencl:{base}-{count}", count + 1
        try:
            usable[name] = _facts(cl, name, platform, handle), handle
        except (BuildError, cl.Error) as error:  # the device cannot run even the simplest kernel
            refused.append(f"{handle.name.strip()}: {error_line(error)}")
    return Discovery(usable, tuple(refused))


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
    version = re.search(r"(PoCL \S+).*?(LLVM [\d.]+)", platform.version)  # without a match, the whole line
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


_RATES = ("vector_bits", "peak_gflops", "bandwidth_gbs")


def _rates(cl: Any, handle: Any, key: str) -> dict[str, float]:
    """The device's vector bits, peak GFLOP/s and GB/s, measured once and then read from the user's cache folder."""
    return cached_rates("opencl.json", key, lambda rates: {name: float(rates[name]) for name in _RATES},
                        lambda: _measure(cl, handle))


def _measure(cl: Any, handle: Any) -> dict[str, float]:
    context = cl.Context([handle])
    queue = cl.CommandQueue(context)
    cpu = bool(handle.type & cl.device_type.CPU)
    items, loops = (8 * handle.max_compute_units, 100_000) if cpu else (2048 * handle.max_compute_units, 2_000)
    floats = min(1 << 25, handle.max_mem_alloc_size // 4)  # 128 MiB, more than the caches hold
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
        raise BuildError(error_line(error)) from None
    return {"vector_bits": float(round(float(bits[1]) / 128) * 128),
            "peak_gflops": round(items * loops * 256 / peak / 1e9, 1),
            "bandwidth_gbs": round(steps * items * 128 / sweep / 1e9, 1)}


def error_line(error: Exception) -> str:
    """The most informative line of a driver's message: the compiler's first `error:`, else the first line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return one_line(next((line for line in lines if "error:" in line), lines[0] if lines else error))
