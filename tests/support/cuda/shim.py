"""The shim: runs a CUDA kernel's text on the host, block by block and lane by lane, with every access checked.

The text is compiled by g++ with another definition of its device functions (`shim.hpp`), so the arithmetic, the
addresses, the barriers and the pipeline are those of the kernel; instructions, registers and speed are not.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.cuda.source.instructions import BODY
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import decode, encode
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import (
    Argument,
    BufferArgument,
    Call,
    ScalarArgument,
    TensorMapArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.stored_operands import stored
from seqtune.tuner.measuring.reference import make_operands

HERE = Path(__file__).parent
CANARY = 256  # bytes before and after a buffer, which is also its alignment
OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-w", f"-I{HERE}")


class ShimError(Exception):
    """The kernel did something that a GPU forbids, or that only luck makes right there."""


def why_not_here() -> str | None:
    """The reason why the shim cannot run on this machine, or None."""
    if shutil.which("g++") is None:
        return "the shim needs g++"
    return None if platform.machine() == "x86_64" else "the shim's fibres are written for x86-64"


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="shim")


@lru_cache(maxsize=1)
def _runner() -> ctypes.CDLL:
    """The library of shim.cpp, which all kernels share."""
    path = Path(_folder().name) / "libshim.so"
    _compile(["-shared", str(HERE / "shim.cpp"), str(HERE / "hopper.cpp"), "-o", str(path)])
    code = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    code.shim_run.restype = ctypes.c_char_p
    return code


def _compile(arguments: list[str]) -> None:
    done = subprocess.run(["g++", *OPTIONS, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise ShimError(f"g++: {done.stderr[:2000]}")


@lru_cache(maxsize=64)
def library(source: KernelSource, entries: tuple[str, ...]) -> ctypes.CDLL:
    """The kernel's text as a shared library with a launcher for every entry. Raises ShimError."""
    _, mark, body = source.text.partition(BODY)
    if not mark:
        raise ShimError("the text does not say where its body begins")
    launchers = "".join(f'\nextern "C" void launch_{entry}(void **values) {{ shim::invoke({entry}, values); }}'
                        for entry in entries)
    path = Path(_folder().name) / hashlib.sha256(f"{entries}{source.text}".encode()).hexdigest()[:24]
    path.with_suffix(".cpp").write_text(f'#include "shim.hpp"\n{body}{launchers}\n')
    _runner()
    _compile(["-shared", str(path.with_suffix(".cpp")), "-o", str(path.with_suffix(".so"))])
    return ctypes.CDLL(str(path.with_suffix(".so")))


@dataclass
class Buffer:
    """A buffer between canaries."""

    content: NDArray[Any]
    writable: bool = False
    _memory: NDArray[np.uint8] = field(init=False, repr=False)
    _begin: int = field(init=False)

    def __post_init__(self) -> None:
        content = np.ascontiguousarray(self.content)
        self._memory = np.full(content.nbytes + 3 * CANARY, 0xAB, np.uint8)
        self._begin = CANARY + -(self._memory.ctypes.data + CANARY) % CANARY
        view = self._memory[self._begin:self._begin + content.nbytes].view(content.dtype).reshape(content.shape)
        view[...] = content
        self.content = view

    @property
    def address(self) -> int:
        """Where the buffer begins."""
        return int(self._memory.ctypes.data) + self._begin

    def intact(self) -> bool:
        """Whether nothing was written before or after the buffer."""
        before, after = self._memory[:self._begin], self._memory[self._begin + self.content.nbytes:]
        return bool((before == 0xAB).all() and (after == 0xAB).all())


class _Map(ctypes.Structure):
    """A tensor map as hopper.hpp has it."""

    _fields_ = (("base", ctypes.c_void_p), ("sizes", ctypes.c_uint64 * 2), ("step", ctypes.c_uint64),
                ("box", ctypes.c_uint32 * 2), ("swizzle", ctypes.c_uint32))


def _described(argument: TensorMapArgument, buffer: Buffer) -> _Map:
    return _Map(buffer.address, argument.sizes, argument.steps[0], argument.box, argument.swizzle)


def _value(argument: Argument, buffers: Mapping[str, Buffer]) -> Any:
    """An argument as the launcher takes it."""
    if isinstance(argument, TensorMapArgument):
        return _described(argument, buffers[argument.buffer.name])
    if isinstance(argument, ScalarArgument):
        return ctypes.c_int(int(argument.number))
    if isinstance(argument, BufferArgument | WorkspaceArgument):
        return ctypes.c_void_p(buffers[argument.name].address)
    return ctypes.c_void_p(None)


def run_call(call: Call, dtype: str, buffers: Mapping[str, Buffer], seed: int) -> None:
    """Run all steps on buffers by name. Raises ShimError."""
    code = library(call.source, tuple(dict.fromkeys(step.entry for step in call.steps)))
    present = list(buffers.values())
    begins = (ctypes.c_void_p * len(present))(*(buffer.address for buffer in present))
    sizes = (ctypes.c_uint64 * len(present))(*(buffer.content.nbytes for buffer in present))
    writable = (ctypes.c_int * len(present))(*(buffer.writable for buffer in present))
    for step in call.steps:
        arguments = [_value(argument, buffers) for argument in step.arguments]
        values = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(argument) for argument in arguments))
        assert step.local_size is not None
        block = [*step.local_size, 1, 1][:3]
        grid = [size // local for size, local in zip([*step.global_size, 1, 1][:3], block, strict=True)]
        triple = ctypes.c_uint * 3
        said = _runner().shim_run(
            getattr(code, f"launch_{step.entry}"), values, triple(*grid), triple(*block), step.shared, step.cluster,
            int(dtype == "bf16"), ctypes.c_uint64(seed), begins, sizes, writable, len(present))
        if said:
            raise ShimError(f"{step.entry}: {said.decode()}")
    if not all(buffer.intact() for buffer in present):
        raise ShimError("wrote beside a buffer")


def run_on_shim(kernel: Kernel, problem: Problem, device: Device, configuration: Configuration, seed: int = 0,
                operands: Mapping[str, NDArray[np.float32]] | None = None,
                call: Call | None = None) -> NDArray[np.float32]:
    """The output of one configuration, computed lane by lane; `call` replaces the kernel's own. Raises ShimError."""
    work, dtype = operation(problem.type), problem.dtype
    call = call or call_of(kernel, problem, device, configuration)
    arguments = call.buffers()
    buffers = {name: Buffer(stored(array, arguments[name]))
               for name, array in (operands or make_operands(problem)).items()}
    y = buffers["y"] = Buffer(encode(np.full(work.output(problem), np.nan, np.float32), dtype), writable=True)
    for workspace in call.workspaces():
        buffers[workspace.name] = Buffer(np.full(workspace.count, np.nan, np.float32), writable=True)
    run_call(call, dtype, buffers, seed)
    return decode(y.content, dtype)


def bank_conflicts() -> int:
    """The number of 8 x 8 matrices that ldmatrix loaded with bank conflicts since the last call."""
    return int(_runner().shim_conflicts())
