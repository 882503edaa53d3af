"""Rates of a GPU, measured: fp32 and tensor-core arithmetic, memory bandwidth, and the clock meanwhile."""

from __future__ import annotations

import ctypes
import struct
import time
from contextlib import closing, suppress

from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import sections
from seqtune.kernels.launches.implementation import KernelSource

from .compiler import CubinCompiler
from .driver import Driver, Gpu

RATE_NAMES = ("peak_gflops", "mma_gflops", "bandwidth_gbs", "busy_mhz")  # busy_mhz: 0 where the clock cannot be read
LOOPS = 4096  # of 64 multiply-adds a thread: about 1 ms
BLOCKS, THREADS = 16, 256  # for each unit; of a block
SWEEP_BYTES = 1 << 30  # many times any L2 cache
REPEATS = 10  # the best counts
WARM_SECONDS = 0.3  # of work before the first rate: a GPU at rest takes a while to reach its clock
NVML = "libnvidia-ml.so.1"  # NVIDIA's management library, which comes with the driver
_UNITS = 1  # NVML_CLOCK_SM


def measure(device: Device, number: int, driver: Driver) -> dict[str, float]:
    """Measure the rates by name of RATE_NAMES: GFLOP/s, GB/s and MHz. Raises SeqtuneError, LaunchError, BuildError."""
    image = CubinCompiler(device).compile(KernelSource(sections(__file__, "rates.cu")["rates"]))
    with closing(Gpu(number, driver)) as gpu:
        return _measure(gpu, image.cubin, device, number)


def _measure(gpu: Gpu, cubin: bytes, device: Device, number: int) -> dict[str, float]:
    """The rates on an opened GPU. The loaded image is freed at the end, while the GPU is open."""
    grid = (BLOCKS * device.compute_units,)
    threads = grid[0] * THREADS
    steps = SWEEP_BYTES // (16 * threads)
    module = gpu.module(cubin)
    y, x = gpu.allocate(4 * threads), gpu.allocate(16 * threads * steps)
    gpu.fill(y, 0, 4 * threads)
    gpu.fill(x, 0, 16 * threads * steps)

    def best(entry: str, arguments: bytes, warm: float = 0.0) -> float:
        launch = gpu.launcher(module, entry, grid, (THREADS,), 0, arguments)
        launch()  # outside the graph first: an error shows, and the driver loads the code
        gpu.synchronize()
        graph = gpu.timed_graph(lambda: None, launch, 1)
        until = time.monotonic() + warm
        while time.monotonic() < until:
            gpu.run_graph(graph)
        seconds = min(gpu.run_graph(graph) for _ in range(REPEATS))
        gpu.free_graph(graph)
        return seconds

    peak = 2 * 64 * LOOPS * threads / best("peak", struct.pack("<Qi", y, LOOPS), WARM_SECONDS)
    busy = clock_mhz(number)
    a_product = 2 * 16 * 8 * (16 if int(dict(device.extra)["compute_capability"]) >= 80 else 8)
    tensor = 4 * a_product * LOOPS * (threads // 32) / best("tensor", struct.pack("<Qi", y, LOOPS))
    bandwidth = 16 * threads * steps / best("sweep", struct.pack("<QQi", y, x, steps))
    return {"peak_gflops": round(peak / 1e9, 1), "mma_gflops": round(tensor / 1e9, 1),
            "bandwidth_gbs": round(bandwidth / 1e9, 1), "busy_mhz": float(busy)}


def clock_mhz(number: int) -> int:
    """The clock of the GPU's units now by NVML, in MHz; 0 where it cannot be read.

    `number` counts as NVML does, by the position on the bus; it is the driver's number unless CUDA_VISIBLE_DEVICES or
    CUDA_DEVICE_ORDER says otherwise.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(NVML)
        handle, clock = ctypes.c_void_p(), ctypes.c_uint()
        if (library.nvmlInit_v2() == 0
                and library.nvmlDeviceGetHandleByIndex_v2(number, ctypes.byref(handle)) == 0
                and library.nvmlDeviceGetClockInfo(handle, _UNITS, ctypes.byref(clock)) == 0):
            return clock.value
    return 0
