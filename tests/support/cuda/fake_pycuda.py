"""A stand-in in Python for the part of pycuda, and of NVIDIA's driver beside it, that the cuda backend uses.

Memory is checked: a copy or a fill outside an allocation is refused. Kernels are Python functions by their entry. The
context can be broken, as an illegal address breaks a real one. A clock of its own makes times exact.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.launches.call import TensorMapArgument
from seqtune.tuner.backends.cuda.discovery import GpuDiscovery
from seqtune.tuner.backends.cuda.driver import ATTRIBUTES, Driver
from seqtune.tuner.backends.measured_rates import RateCache

MAP_BYTES = 128
FLUSH_SECONDS, COPY_SECONDS, KERNEL_SECONDS = 50e-6, 20e-6, 5e-6
LARGE = 1 << 20  # bytes; the scratch memory that overwrites a cache is never read
RATES = {"peak_gflops": 60_000.0, "mma_gflops": 600_000.0, "bandwidth_gbs": 4000.0, "busy_mhz": 1800.0}
H200 = {"MULTIPROCESSOR_COUNT": 132, "CLOCK_RATE": 1_980_000, "L2_CACHE_SIZE": 60 << 20, "WARP_SIZE": 32,
        "MAX_THREADS_PER_BLOCK": 1024, "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
        "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 << 10,
        "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 << 10, "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024}


class FakeError(Exception):
    """pycuda.driver.Error."""


class FakeCuda:
    """The module pycuda.driver on a machine with two GPUs of one model, and the rest of the driver (`LibCuda`)."""

    Error = FakeError

    def __init__(self, kernels: dict[str, Callable[[FakeCuda, bytes], None]]) -> None:
        self.kernels = kernels
        self.memory: dict[int, bytearray] = {}
        self.log: list[tuple[str, Any]] = []  # launches, dynamic shared memory, tensor maps
        self.broken = ""  # the message of every later call
        self.refused = ""  # the message of every later launch
        self.captured: list[Callable[[], None]] | None = None
        self.clock, self.top = 0.0, 0x7000000000
        self.events: list[float] = []
        self.attributes = dict(H200)
        self.device_attribute = SimpleNamespace(**{name: name for name in ATTRIBUTES})
        self.function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="dynamic")
        self.Context = SimpleNamespace(synchronize=self.synchronize)
        self.Device = _Devices(self)

    def check(self) -> None:
        if self.broken:
            raise FakeError(self.broken)

    def synchronize(self) -> None:
        self.check()
        if self.captured is not None:
            raise FakeError("operation not permitted when stream is capturing")

    def get_driver_version(self) -> int:
        return 13000

    def Stream(self) -> Any:
        return SimpleNamespace(synchronize=self.check, handle=7)

    def mem_alloc(self, size: int) -> _Memory:
        self.check()
        self.top += (size + 511) // 256 * 256
        address = self.top - (size + 255) // 256 * 256
        self.memory[address] = bytearray(size)
        return _Memory(self, address)

    def place(self, address: int, size: int) -> tuple[bytearray, int]:
        """The allocation that holds these bytes, and their offset in it."""
        self.check()
        for begin, content in self.memory.items():
            if begin <= address and address + size <= begin + len(content):
                return content, address - begin
        raise FakeError(f"invalid argument: {size} bytes at {address:#x}")

    def view(self, address: int, shape: tuple[int, ...], dtype: type) -> NDArray[Any]:
        """Memory as an array that kernels may change."""
        content, offset = self.place(address, int(np.prod(shape)) * np.dtype(dtype).itemsize)
        return np.frombuffer(content, dtype, int(np.prod(shape)), offset).reshape(shape)

    def memcpy_htod(self, address: int, array: NDArray[Any]) -> None:
        content, offset = self.place(address, array.nbytes)
        content[offset:offset + array.nbytes] = array.tobytes()

    def memcpy_dtoh(self, array: NDArray[Any], address: int) -> None:
        content, offset = self.place(address, array.nbytes)
        array[...] = np.frombuffer(content, array.dtype, array.size, offset).reshape(array.shape)

    def memset_d8_async(self, address: int, byte: int, size: int, stream: Any) -> None:
        content, offset = self.place(address, size)

        def fill() -> None:
            if size < LARGE:
                content[offset:offset + size] = bytes([byte]) * size
            self.clock += FLUSH_SECONDS

        self.enqueue(fill)

    def memcpy_dtod_async(self, address: int, source: int, size: int, stream: Any) -> None:
        (content, offset), (other, begin) = self.place(address, size), self.place(source, size)

        def copy() -> None:
            content[offset:offset + size] = other[begin:begin + size]
            self.log.append(("copy", size))
            self.clock += COPY_SECONDS

        self.enqueue(copy)

    def enqueue(self, work: Callable[[], None]) -> None:
        """Do the work now, or keep it for the graph that is captured."""
        work() if self.captured is None else self.captured.append(work)

    def module_from_buffer(self, cubin: bytes) -> Any:
        self.check()
        assert cubin.startswith(b"\x7fELF")
        return SimpleNamespace(get_function=lambda entry: _Function(self, entry))


class _Devices:
    """pycuda.driver.Device."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda

    def count(self) -> int:
        return 2

    def __call__(self, number: int) -> Any:
        context = SimpleNamespace(push=lambda: None, pop=lambda: None, detach=lambda: None)
        return SimpleNamespace(
            name=lambda: "NVIDIA H200", compute_capability=lambda: (9, 0), retain_primary_context=lambda: context,
            get_attribute=self._attribute)

    def _attribute(self, name: str) -> int:
        if name not in self.cuda.attributes:
            raise FakeError(f"invalid argument: no attribute {name}")
        return self.cuda.attributes[name]


class _Memory:
    def __init__(self, cuda: FakeCuda, address: int) -> None:
        self.cuda, self.address = cuda, address

    def __int__(self) -> int:
        return self.address

    def free(self) -> None:
        self.cuda.check()
        del self.cuda.memory[self.address]


class _Function:
    def __init__(self, cuda: FakeCuda, entry: str) -> None:
        self.cuda, self.entry = cuda, entry

    def set_attribute(self, attribute: str, value: int) -> None:
        self.cuda.log.append((attribute, value))

    def __call__(self, packed: Any, *, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: Any) -> None:
        cuda, arguments = self.cuda, bytes(packed.tobytes())
        cuda.check()
        if cuda.refused:
            raise FakeError(cuda.refused)

        def work() -> None:
            cuda.log.append((self.entry, (grid, block, shared)))
            cuda.kernels[self.entry](cuda, arguments)
            cuda.clock += KERNEL_SECONDS

        cuda.enqueue(work)


class FakeLibCuda:
    """The stand-in for LibCuda, beside a FakeCuda."""

    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda = cuda
        self.graphs: list[list[Callable[[], None]]] = []
        self.functions: list[_Function] = []

    def capture(self, stream: int, work: Callable[[], None]) -> int:
        captured: list[Callable[[], None]] = []
        self.cuda.captured = captured
        try:
            work()
        finally:
            self.cuda.captured = None
        self.graphs.append(captured)
        return len(self.graphs) - 1

    def launch_graph(self, graph: int, stream: int) -> None:
        for work in self.graphs[graph]:
            work()

    def free_graph(self, graph: int) -> None:
        self.graphs[graph] = []

    def event(self) -> int:
        self.cuda.events.append(-1.0)
        return len(self.cuda.events) - 1

    def free_event(self, event: int) -> None:
        pass

    def record_in_graph(self, event: int, stream: int) -> None:
        def happen() -> None:
            self.cuda.events[event] = self.cuda.clock

        self.cuda.enqueue(happen)

    def seconds_between(self, begin: int, end: int) -> float:
        return self.cuda.events[end] - self.cuda.events[begin]

    def function(self, cubin: bytes, entry: str, dynamic_shared: int) -> int:
        self.functions.append(_Function(self.cuda, entry))
        self.functions[-1].set_attribute("dynamic", dynamic_shared)
        return len(self.functions) - 1

    def launch(self, function: int, grid: tuple[int, ...], block: tuple[int, ...], shared: int, stream: int,
               pointers: Any) -> None:
        sizes = [MAP_BYTES] + [8] * 5 + [4] * (len(pointers) - 6)
        pieces = [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]
        self.functions[function](np.bytes_(b"".join(pieces)), grid=grid, block=block, shared=shared, stream=None)

    def free_modules(self) -> None:
        pass

    def tensor_map(self, argument: TensorMapArgument, address: int) -> bytes:
        self.cuda.log.append(("map", (argument.buffer.name, argument.buffer.dtype)))
        return address.to_bytes(8, "little") + bytes(120)


def discovery_of(cuda: FakeCuda, library: FakeLibCuda, folder: Path) -> GpuDiscovery:
    """The GPUs of the stand-ins, with rates that are given; they are kept in the folder."""
    driver = Driver(cuda, library)  # type: ignore[arg-type]
    return GpuDiscovery(lambda: driver, RateCache(folder), lambda device, number, _: dict(RATES))
