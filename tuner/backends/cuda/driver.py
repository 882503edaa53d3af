"""Gpu: one NVIDIA GPU opened through pycuda. Every call of pycuda stands in this module.

Work goes into one stream. A failed call raises LaunchError; if the context does not answer after it (an illegal address
and its like are sticky), it raises DeviceLost, and only a new process can use the GPU again.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MissingPackageError, UnavailableError, one_line
from seqtune.kernels.launches.call import TensorMapArgument

from ..backend import DeviceLost, LaunchError
from .libcuda import DriverError, LibCuda, parameter_pointers

INSTALL = "pip install 'seqtune[cuda]' (pycuda builds with the CUDA toolkit's nvcc and cuda.h: set CUDA_ROOT)"
ATTRIBUTES = (  # the driver's names; older versions of pycuda lack some
    "MULTIPROCESSOR_COUNT", "CLOCK_RATE", "L2_CACHE_SIZE", "WARP_SIZE", "MAX_THREADS_PER_BLOCK",
    "MAX_THREADS_PER_MULTIPROCESSOR", "MAX_BLOCKS_PER_MULTIPROCESSOR", "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR", "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", "RESERVED_SHARED_MEMORY_PER_BLOCK")


Grid = tuple[int, ...]  # along one to three axes


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """The driver's facts about one GPU."""

    number: int  # among those that the driver shows
    model: str
    capability: int  # 90 for 9.0
    attributes: Mapping[str, int]  # by the names of ATTRIBUTES
    driver: str  # the newest version of CUDA that it supports, as in "13.0"


@dataclass(frozen=True, slots=True)
class Driver:
    """NVIDIA's driver: pycuda's module, and the functions that pycuda does not offer."""

    cuda: Any  # the module pycuda.driver
    library: LibCuda


def load(open_library: Callable[[], LibCuda] = LibCuda) -> Driver:
    """Import pycuda and initialise the driver. Raises UnavailableError."""
    library = open_library()
    try:
        import pycuda.driver as cuda
    except ImportError as error:
        raise MissingPackageError(f"pycuda is not installed ({one_line(error, 100)}): {INSTALL}") from None
    try:
        cuda.init()
    except cuda.Error as error:
        raise UnavailableError(f"the NVIDIA driver finds no GPU ({one_line(error, 100)})") from None
    return Driver(cuda, library)


def gpus(cuda: Any) -> list[GpuFacts]:
    """The GPUs that the driver shows to pycuda's module, in the driver's order."""
    version = cuda.get_driver_version()
    return [_facts(cuda, number, f"{version // 1000}.{version % 1000 // 10}") for number in range(cuda.Device.count())]


def _facts(cuda: Any, number: int, driver: str) -> GpuFacts:
    device = cuda.Device(number)
    major, minor = device.compute_capability()
    attributes: dict[str, int] = {}
    for name in ATTRIBUTES:
        with suppress(AttributeError, cuda.Error):
            attributes[name] = int(device.get_attribute(getattr(cuda.device_attribute, name)))
    return GpuFacts(number, str(device.name()).strip(), 10 * major + minor, attributes, driver)


def _three(sizes: Grid) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


class Gpu:
    """An opened GPU with a stream. Not thread-safe; use it from the thread that opened it, and close it."""

    def __init__(self, number: int, driver: Driver) -> None:
        self.cuda, self.library = driver.cuda, driver.library
        self._context = self.cuda.Device(number).retain_primary_context()  # shared with other libraries: PyTorch
        self._context.push()
        self._stream = self.cuda.Stream()
        self._memory: dict[int, Any] = {}  # address -> pycuda's allocation
        self._capturing = self._closed = False
        atexit.register(self.close)

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Turn an error of the driver into LaunchError, or DeviceLost where the context is dead."""
        try:
            yield
        except (self.cuda.Error, DriverError) as error:
            message = one_line(error)
            if self._capturing:  # then the driver refuses to synchronise a context that is well
                raise LaunchError(message) from None
            try:
                self.cuda.Context.synchronize()
            except self.cuda.Error as later:
                raise DeviceLost(one_line(later)) from None
            raise LaunchError(message) from None

    def allocate(self, size: int) -> int:
        """The address of new memory of `size` bytes. Raises LaunchError."""
        with self._checked():
            memory = self.cuda.mem_alloc(size)
        self._memory[int(memory)] = memory
        return int(memory)

    def free(self, address: int) -> None:
        """Free memory that `allocate` returned."""
        with suppress(self.cuda.Error):  # the context is dead, and its end frees the memory
            self._memory.pop(address).free()

    def write(self, address: int, array: NDArray[Any]) -> None:
        """Copy an array to the GPU and wait."""
        with self._checked():
            self._stream.synchronize()
            self.cuda.memcpy_htod(address, np.ascontiguousarray(array))

    def read(self, array: NDArray[Any], address: int) -> None:
        """Fill an array from the GPU when earlier work is done."""
        with self._checked():
            self._stream.synchronize()
            self.cuda.memcpy_dtoh(array, address)

    def fill(self, address: int, byte: int, size: int) -> None:
        """Fill memory with a byte, in the stream."""
        if size:
            with self._checked():
                self.cuda.memset_d8_async(address, byte, size, self._stream)

    def copy(self, source: int, address: int, size: int) -> None:
        """Copy memory of the GPU to another address, in the stream."""
        if size:
            with self._checked():
                self.cuda.memcpy_dtod_async(address, source, size, self._stream)

    def module(self, cubin: bytes) -> Any:
        """Load a compiled image."""
        with self._checked():
            return self.cuda.module_from_buffer(cubin)

    def launcher(self, module: Any, entry: str, grid: Grid, block: Grid, shared: int,
                 arguments: bytes) -> Callable[[], None]:
        """A call that puts a launch into the stream. `arguments` are the bytes of all parameters, packed as in C."""
        with self._checked():
            function = module.get_function(entry)
            if shared:
                function.set_attribute(self.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        packed = np.frombuffer(arguments, np.dtype((np.void, len(arguments))))[0]

        def launch() -> None:
            with self._checked():
                function(packed, grid=_three(grid), block=_three(block), shared=shared, stream=self._stream)

        return launch

    def launcher_with_maps(self, cubin: bytes, entry: str, grid: Grid, block: Grid, shared: int,
                           arguments: Sequence[bytes]) -> Callable[[], None]:
        """The same for an entry that takes tensor maps.

        Their alignment puts the parameters at other offsets on each architecture; pycuda passes them as one packed
        buffer, and the driver places them itself only if it gets them one by one.
        """
        with self._checked():
            function = self.library.function(cubin, entry, shared)
        memory, pointers = parameter_pointers(arguments)

        def launch(keep: object = memory) -> None:
            with self._checked():
                self.library.launch(function, _three(grid), _three(block), shared, self._stream.handle, pointers)

        return launch

    def synchronize(self) -> None:
        """Wait until all work in the stream is done."""
        with self._checked():
            self._stream.synchronize()

    def tensor_map(self, argument: TensorMapArgument, address: int) -> bytes:
        """The bytes of a CUtensorMap for the buffer at an address; see LibCuda."""
        with self._checked():
            return self.library.tensor_map(argument, address)

    def timed_graph(self, before: Callable[[], None], work: Callable[[], None], repeats: int) -> TimedGraph:
        """A graph that runs `before` and then `work`, `repeats` times, with an event on both sides of each `work`."""
        events: list[tuple[int, int]] = []
        handle = self._stream.handle

        def repeat() -> None:
            for begin, end in events:
                before()
                self.library.record_in_graph(begin, handle)
                work()
                self.library.record_in_graph(end, handle)

        with self._checked():
            events += [(self.library.event(), self.library.event()) for _ in range(repeats)]
            self._capturing = True
            try:
                return TimedGraph(self.library.capture(handle, repeat), tuple(events))
            finally:
                self._capturing = False

    def run_graph(self, graph: TimedGraph) -> float:
        """Run a graph; returns the seconds of all its `work`."""
        with self._checked():
            self.library.launch_graph(graph.handle, self._stream.handle)
            self._stream.synchronize()
            return sum(self.library.seconds_between(begin, end) for begin, end in graph.events)

    def free_graph(self, graph: TimedGraph) -> None:
        """Free a graph and its events."""
        with suppress(DriverError):
            self.library.free_graph(graph.handle)
            for event in (event for pair in graph.events for event in pair):
                self.library.free_event(event)

    def close(self) -> None:
        """Free all memory and leave the context."""
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        for address in list(self._memory):
            self.free(address)
        with suppress(self.cuda.Error, DriverError):
            self.library.free_modules()
            del self._stream
            self._context.pop()
            self._context.detach()


@dataclass(frozen=True, slots=True)
class TimedGraph:
    """A captured sequence of launches with the events around each of them."""

    handle: int
    events: tuple[tuple[int, int], ...]
