"""An OpenCL device, by pyopencl. OPENCL_DEVICE in the environment is a part of the name of the one to use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
from numpy.typing import NDArray

ERRORS = (cl.Error, LookupError)
RUNS = 20


class Device:
    """The device that the kernel was chosen for, by its name, or else the first one."""

    def __init__(self, folder: Path, about: dict[str, Any]) -> None:
        self.handle = _device(about["device"]["model"])
        self.name = str(self.handle.name).strip()
        self.context = cl.Context([self.handle])
        self.queue = cl.CommandQueue(self.context)
        self.buffers = {name: cl.Buffer(self.context, cl.mem_flags.READ_WRITE, buffer["bytes"])
                        for name, buffer in (*about["buffers"].items(), *about["workspaces"].items())}
        text = (folder / f"{about['name']}.cl").read_text()
        self.program = cl.Program(self.context, text).build(options=about["compiler_options"])
        self.launches = [(self._kernel(launch), tuple(launch["global"]), launch["local"] and tuple(launch["local"]))
                         for launch in about["launches"]]

    def write(self, name: str, array: NDArray[Any]) -> None:
        """Copy an array to a buffer."""
        cl.enqueue_copy(self.queue, self.buffers[name], array)

    def read(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        """Copy a buffer to an array, and return it."""
        cl.enqueue_copy(self.queue, array, self.buffers[name])
        return array

    def _kernel(self, launch: dict[str, Any]) -> Any:
        """The kernel of a launch with its arguments."""
        kernel = cl.Kernel(self.program, launch["entry"])
        kernel.set_args(*map(self._value, launch["arguments"]))
        return kernel

    def _value(self, argument: dict[str, Any]) -> Any:
        if argument["kind"] == "scalar":
            return np.frombuffer(bytes.fromhex(argument["bytes_little_endian"]), np.uint8)
        if argument["kind"] == "local":
            return cl.LocalMemory(argument["bytes"])
        return self.buffers[argument["name"]] if "name" in argument else None

    def run(self) -> float:
        """Launch all entries in order; returns the seconds that they take."""
        begin = time.perf_counter()
        for kernel, sizes, local in self.launches:
            cl.enqueue_nd_range_kernel(self.queue, kernel, sizes, local)
        self.queue.finish()
        return time.perf_counter() - begin


def _device(model: str) -> Any:
    """The device of this model, or of OPENCL_DEVICE; else the first one. Raises LookupError."""
    devices = [handle for platform in cl.get_platforms() for handle in platform.get_devices()]
    wanted = os.environ.get("OPENCL_DEVICE")
    named = [handle for handle in devices if (wanted or model) in handle.name]
    if not devices or (wanted and not named):
        raise LookupError(f"no OpenCL device has {wanted} in its name" if wanted else "there is no OpenCL device")
    return (named or devices)[0]
