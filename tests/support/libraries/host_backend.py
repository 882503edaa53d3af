"""A backend for tests alone: it compiles OpenCL C as C, and runs the work-items of a kernel one after another."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import Call, CallStep
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.backend import BuildError
from seqtune.tuner.backends.called_executable import CalledExecutable, Resets, WallTimer, values_of
from seqtune.tuner.backends.stored_operands import StoredOperands

DEVICE = Device("host:c", "host", "c", "none", max_work_group=1024, local_memory=1 << 16)
BACKEND = f"{__name__}:HostBackend"
PRELUDE = """typedef unsigned char uchar;
#define __kernel
#define __global
long host_ids[3];
#define get_global_id(axis) host_ids[axis]
"""


class HostCalls:
    """See CallDriver: a buffer is a NumPy array of bytes."""

    compiles_at_launch = False

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.count = 0

    def program(self, source: KernelSource) -> ctypes.CDLL:
        self.count += 1
        path = Path(self.folder.name) / f"kernel{self.count}"
        path.with_suffix(".c").write_text(PRELUDE + source.text)
        command = ["cc", "-shared", "-fPIC", "-O1", *source.options, "-o", f"{path}.so", f"{path}.c"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise BuildError(result.stderr)
        return ctypes.CDLL(f"{path}.so")

    def margins(self, size: int, number: int) -> tuple[int, int]:
        return 64, 64

    def allocate(self, size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    def free(self, buffer: NDArray[np.uint8]) -> None:
        pass

    def write(self, buffer: NDArray[np.uint8], offset: int, array: NDArray[Any]) -> None:
        buffer[offset:offset + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)

    def read(self, buffer: NDArray[np.uint8], offset: int, array: NDArray[Any]) -> None:
        array[...] = np.frombuffer(buffer[offset:offset + array.nbytes].tobytes(), array.dtype).reshape(array.shape)

    def fill(self, buffer: NDArray[np.uint8], offset: int, byte: int, size: int) -> None:
        buffer[offset:offset + size] = byte

    def copy(self, source: NDArray[np.uint8], buffer: NDArray[np.uint8], offset: int, size: int) -> None:
        buffer[offset:offset + size] = source[:size]

    def address(self, buffer: NDArray[np.uint8], offset: int, size: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(buffer.ctypes.data + offset)

    def launcher(self, program: ctypes.CDLL, step: CallStep, addresses: Mapping[str, Any]) -> Callable[[], None]:
        function = getattr(program, step.entry)
        ids = (ctypes.c_long * 3).in_dll(program, "host_ids")
        arguments = [value if isinstance(value, ctypes.c_void_p) else np.ctypeslib.as_ctypes_type(value.dtype)(value)
                     for value in values_of(step, addresses)]

        def launch() -> None:
            for item in itertools.product(*map(range, step.global_size)):
                ids[:len(item)] = list(item)
                function(*arguments)

        return launch

    def finish(self) -> None:
        pass

    def timer(self, enqueue: Callable[[], None]) -> WallTimer:
        return WallTimer(enqueue, self.finish)

    def resets(self, program: ctypes.CDLL, call: Call) -> Resets:
        return Resets()

    def resources(self, program: ctypes.CDLL, call: Call) -> None:
        return None


class HostBackend:
    """A backend that runs calls by a CallDriver."""

    build_allowance = 10.0
    reference_work = None
    checks_itself = False

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calls = HostCalls()
        self.operands = StoredOperands()

    def build(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> CalledExecutable:
        return CalledExecutable.of(self.calls, self.operands, problem, self.device, kernel, configuration)

    def close(self) -> None:
        self.calls.folder.cleanup()
