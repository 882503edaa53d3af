"""LibCuda: functions of NVIDIA's driver that pycuda does not offer: graphs, events in graphs, and tensor maps.

They are called with ctypes, work on the context that pycuda made current, and on pycuda's streams by their handles.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from seqtune.errors import UnavailableError
from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.launches.call import TensorMapArgument

LIBRARY = "libcuda.so.1"
_CAPTURE_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED: the driver may load code, and Python free memory, meanwhile
_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_RECORD_EXTERNAL = 1  # CU_EVENT_RECORD_EXTERNAL: the event can be read after the graph has run
MAP_BYTES, MAP_ALIGNMENT = 128, 64  # of a CUtensorMap
_MAP_TYPES = {"fp32": 7, "fp16": 6, "bf16": 9}  # CUtensorMapDataType
_MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle by bytes
_MAP_PROMOTION = 3  # CU_TENSOR_MAP_L2_PROMOTION_L2_256B: fetch neighbours into L2


class DriverError(Exception):
    """A function of the driver failed."""


class LibCuda:
    """The driver's library. Raises UnavailableError if it is not installed."""

    def __init__(self, library: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError:
            raise UnavailableError(f"no NVIDIA driver ({library}) is installed here; pip install 'seqtune[nvrtc]' to "
                                   "compile without one, 'seqtune[cuda]' to measure with one") from None

        self._modules: dict[bytes, ctypes.c_void_p] = {}

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises DriverError with the driver's text."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise DriverError(f"the NVIDIA driver is too old: it has no {name}") from None
        code = function(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'').decode(errors='replace') or f'error {code}'}")

    def capture(self, stream: int, work: Callable[[], None]) -> int:
        """Record the work that a call puts into a stream, as a graph ready to launch. Returns its handle."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamBeginCapture_v2", ctypes.c_void_p(stream), _CAPTURE_RELAXED)
        try:
            work()
        finally:  # a stream that is left capturing could not be used any more
            self._call("cuStreamEndCapture", ctypes.c_void_p(stream), ctypes.byref(graph))
        try:
            self._call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        finally:
            self._call("cuGraphDestroy", graph)
        assert executable.value is not None
        return executable.value

    def launch_graph(self, graph: int, stream: int) -> None:
        """Launch a graph into a stream."""
        self._call("cuGraphLaunch", ctypes.c_void_p(graph), ctypes.c_void_p(stream))

    def free_graph(self, graph: int) -> None:
        """Free a graph."""
        self._call("cuGraphExecDestroy", ctypes.c_void_p(graph))

    def function(self, cubin: bytes, entry: str, dynamic_shared: int) -> int:
        """The handle of an image's entry that may be launched with so many bytes of dynamic shared memory."""
        if cubin not in self._modules:
            module = ctypes.c_void_p()
            self._call("cuModuleLoadData", ctypes.byref(module), cubin)
            self._modules[cubin] = module
        function = ctypes.c_void_p()
        self._call("cuModuleGetFunction", ctypes.byref(function), self._modules[cubin], entry.encode())
        if dynamic_shared:
            self._call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, dynamic_shared)
        assert function.value is not None
        return function.value

    def launch(self, function: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared: int, stream: int,
               pointers: Any) -> None:
        """Launch a function into a stream; `pointers` come from `parameter_pointers`."""
        self._call("cuLaunchKernel", ctypes.c_void_p(function), *grid, *block, shared, ctypes.c_void_p(stream),
                   pointers, None)

    def free_modules(self) -> None:
        """Unload the images."""
        for module in self._modules.values():
            self._call("cuModuleUnload", module)
        self._modules.clear()

    def event(self) -> int:
        """Make an event that can be timed; returns its handle."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        assert event.value is not None
        return event.value

    def free_event(self, event: int) -> None:
        """Free an event."""
        self._call("cuEventDestroy_v2", ctypes.c_void_p(event))

    def record_in_graph(self, event: int, stream: int) -> None:
        """Record an event in a stream that is captured: it happens each time the graph runs."""
        self._call("cuEventRecordWithFlags", ctypes.c_void_p(event), ctypes.c_void_p(stream), _RECORD_EXTERNAL)

    def seconds_between(self, begin: int, end: int) -> float:
        """The seconds between two events that have happened."""
        milliseconds = ctypes.c_float()
        self._call("cuEventElapsedTime", ctypes.byref(milliseconds), ctypes.c_void_p(begin), ctypes.c_void_p(end))
        return milliseconds.value / 1000

    def tensor_map(self, argument: TensorMapArgument, address: int) -> bytes:
        """The 128 bytes of a CUtensorMap for a matrix at a device address, as a kernel takes them by value."""
        rank, dtype = len(argument.sizes), argument.buffer.dtype
        memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT)
        begin = -ctypes.addressof(memory) % MAP_ALIGNMENT
        strides = [step * element_type(dtype).size for step in argument.steps]
        self._call(
            "cuTensorMapEncodeTiled", ctypes.c_void_p(ctypes.addressof(memory) + begin), _MAP_TYPES[dtype], rank,
            ctypes.c_void_p(address), _array(ctypes.c_uint64, argument.sizes), _array(ctypes.c_uint64, strides),
            _array(ctypes.c_uint32, argument.box), _array(ctypes.c_uint32, [1] * rank), 0,
            _MAP_SWIZZLES[argument.swizzle], _MAP_PROMOTION, 0)
        return memory.raw[begin:begin + MAP_BYTES]


def parameter_pointers(arguments: Sequence[bytes]) -> tuple[Any, Any]:
    """Host memory that holds the arguments, and an array of pointers to each, as cuLaunchKernel takes them.

    The memory must live as long as the pointers are used. Every argument is aligned like a tensor map.
    """
    wide = [-(-len(argument) // MAP_ALIGNMENT) * MAP_ALIGNMENT for argument in arguments]
    memory = ctypes.create_string_buffer(sum(wide) + MAP_ALIGNMENT)
    address = ctypes.addressof(memory) + -ctypes.addressof(memory) % MAP_ALIGNMENT
    addresses = []
    for argument, size in zip(arguments, wide, strict=True):
        ctypes.memmove(address, argument, len(argument))
        addresses.append(address)
        address += size
    return memory, (ctypes.c_void_p * len(addresses))(*addresses)


def _array(kind: Any, values: Sequence[int]) -> Any:
    return (kind * max(1, len(values)))(*values)
