"""A GPU of NVIDIA, by pycuda. CUDA_VISIBLE_DEVICES in the environment chooses it."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pycuda.driver as cuda
from numpy.typing import NDArray

MAP_BYTES, MAP_ALIGNMENT, DYNAMIC_SHARED = 128, 64, 8
MAP_TYPES = {"fp32": 7, "fp16": 6, "bf16": 9}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
ERRORS = (cuda.Error, RuntimeError, OSError)
RUNS = 20


class Device:
    """The first GPU that the driver shows."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        cuda.init()
        device = cuda.Device(0)
        self.context = device.retain_primary_context()
        self.context.push()
        self.name = str(device.name())
        self.library = ctypes.CDLL("libcuda.so.1")
        self.module = ctypes.c_void_p()
        self._call("cuModuleLoadData", ctypes.byref(self.module), (folder / f"{about['name']}.cubin").read_bytes())
        self.stream = cuda.Stream()
        self.buffers = {name: cuda.mem_alloc(buffer["bytes"])
                        for name, buffer in (*about["buffers"].items(), *about["workspaces"].items())}
        # the driver itself takes the launches: pycuda passes no tensor maps
        self.launches = [self._launch(launch) for launch in about["launches"]]

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Copy an array to a buffer."""
        cuda.memcpy_htod(int(self.buffers[name]), array)

    def read(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Copy a buffer to an array, and return it."""
        cuda.memcpy_dtoh(array, int(self.buffers[name]))
        return array

    def _launch(self, launch: dict[str, Any]) -> Any:
        """A function that enqueues a launch."""
        function, shared = ctypes.c_void_p(), launch["shared_bytes"]
        self._call("cuModuleGetFunction", ctypes.byref(function), self.module, launch["entry"].encode())
        if shared:
            self._call("cuFuncSetAttribute", function, DYNAMIC_SHARED, shared)
        grid, block = ((*launch[sizes], 1, 1)[:3] for sizes in ("groups", "local"))
        kept = [_aligned(self._bytes(argument)) for argument in launch["arguments"] if argument["kind"] != "local"]
        pointers = (ctypes.c_void_p * len(kept))(*(address for _, address in kept))
        stream = ctypes.c_void_p(self.stream.handle)

        def enqueue(kept: object = kept) -> None:  # the values live as long as the function
            self._call("cuLaunchKernel", function, *grid, *block, shared, stream, pointers, None)

        return enqueue

    def _bytes(self, argument: dict[str, Any]) -> bytes:
        """An argument as the entry takes it."""
        if argument["kind"] == "scalar":
            return bytes.fromhex(argument["bytes_little_endian"])
        if argument["kind"] == "tensor map":
            return self._map(argument)
        return int(self.buffers[argument["name"]] if "name" in argument else 0).to_bytes(8, "little")

    def _map(self, argument: dict[str, Any]) -> bytes:
        """The bytes of a CUtensorMap."""
        rank = len(argument["sizes"])
        memory, address = _aligned(bytes(MAP_BYTES))
        sizes, steps = ((ctypes.c_uint64 * rank)(*argument[name]) for name in ("sizes", "step_bytes"))
        box, ones = ((ctypes.c_uint32 * rank)(*numbers) for numbers in (argument["box"], [1] * rank))
        self._call("cuTensorMapEncodeTiled", ctypes.c_void_p(address), MAP_TYPES[argument["type"]], rank,
                   ctypes.c_uint64(int(self.buffers[argument["name"]])), sizes, steps, box, ones, 0,
                   SWIZZLES[argument["swizzle_bytes"]], 3, 0)
        return ctypes.string_at(address, MAP_BYTES) if memory else b""

    def _call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver."""
        status = getattr(self.library, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: error {status} of the driver")

    def run(self) -> float:
        """Launch all entries in order; returns the seconds that the GPU takes."""
        begin, end = cuda.Event(), cuda.Event()
        begin.record(self.stream)
        for enqueue in self.launches:
            enqueue()
        end.record(self.stream)
        end.synchronize()
        return 1e-3 * float(begin.time_till(end))


def _aligned(value: bytes) -> tuple[Any, int]:
    """Memory that holds the bytes, and their address, which suits tensor maps."""
    memory = ctypes.create_string_buffer(len(value) + MAP_ALIGNMENT)
    address = ctypes.addressof(memory) + -ctypes.addressof(memory) % MAP_ALIGNMENT
    ctypes.memmove(address, value, len(value))
    return memory, address
