"""A stand-in for pycuda.driver that calls the functions of libcuda.so.1 by ctypes; a test copies it into a package."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LIBRARY = ctypes.CDLL("libcuda.so.1")
function_attribute = SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES=8)


class Error(Exception):
    """A function of the driver failed."""


def _call(name: str, *arguments: Any) -> None:
    if getattr(_LIBRARY, name)(*arguments):
        raise Error(name)


def _handle(name: str, *arguments: Any) -> ctypes.c_void_p:
    """The handle that a function writes to its first argument."""
    handle = ctypes.c_void_p()
    _call(name, ctypes.byref(handle), *arguments)
    return handle


def init() -> None:
    """Initialise the driver."""
    _call("cuInit", 0)


class Device:
    """A GPU."""

    def __init__(self, number: int) -> None:
        self.number = number

    def name(self) -> str:
        """The name of the model."""
        text = ctypes.create_string_buffer(100)
        _call("cuDeviceGetName", text, 100, self.number)
        return text.value.decode()

    def retain_primary_context(self) -> Any:
        """The context of all libraries."""
        context = _handle("cuDevicePrimaryCtxRetain", self.number)
        return SimpleNamespace(push=lambda: _call("cuCtxSetCurrent", context))


class Stream:
    """A stream of work."""

    def __init__(self) -> None:
        self.handle = _handle("cuStreamCreate", 0).value


class Event:
    """An event in a stream."""

    def __init__(self) -> None:
        self.event = _handle("cuEventCreate", 0)

    def record(self, stream: Stream) -> None:
        """Put the event into a stream."""
        _call("cuEventRecord", self.event, ctypes.c_void_p(stream.handle))

    def synchronize(self) -> None:
        """Wait for the event."""
        _call("cuCtxSynchronize")

    def time_till(self, end: Event) -> float:
        """The milliseconds to another event."""
        milliseconds = ctypes.c_float()
        _call("cuEventElapsedTime", ctypes.byref(milliseconds), self.event, end.event)
        return milliseconds.value


def mem_alloc(size: int) -> int:
    """The address of new memory."""
    return _handle("cuMemAlloc_v2", ctypes.c_size_t(size)).value or 0


def memcpy_htod(address: int, array: NDArray[Any]) -> None:
    """Copy an array to the GPU."""
    assert array.flags.c_contiguous
    _call("cuMemcpyHtoD_v2", ctypes.c_void_p(address), ctypes.c_void_p(array.ctypes.data),
          ctypes.c_size_t(array.nbytes))


def memcpy_dtoh(array: NDArray[Any], address: int) -> None:
    """Copy from the GPU to an array."""
    _call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_void_p(address),
          ctypes.c_size_t(array.nbytes))


def module_from_buffer(image: bytes) -> Any:
    """Load a compiled image."""
    module = _handle("cuModuleLoadData", image)
    return SimpleNamespace(get_function=lambda entry: Function(module, entry))


class Function:
    """An entry of an image."""

    def __init__(self, module: ctypes.c_void_p, entry: str) -> None:
        self.function = _handle("cuModuleGetFunction", module, entry.encode())

    def set_attribute(self, attribute: int, value: int) -> None:
        """Change an attribute."""
        _call("cuFuncSetAttribute", self.function, attribute, value)

    def __call__(self, packed: Any, *, grid: tuple[int, ...], block: tuple[int, ...], shared: int,
                 stream: Stream) -> None:
        """Launch the entry with its arguments packed as in C."""
        memory = np.frombuffer(packed.tobytes(), np.uint8).copy()
        size = ctypes.c_size_t(memory.size)
        extra = (ctypes.c_void_p * 5)(1, memory.ctypes.data, 2, ctypes.addressof(size), 0)
        _call("cuLaunchKernel", self.function, *grid, *block, shared, ctypes.c_void_p(stream.handle), None, extra)
