"""CubinCompiler: CUDA C++ to an image for one GPU architecture by NVRTC, which needs neither a GPU nor a driver.

NVRTC lets Python's other threads run while it compiles, and compiles in several threads at once. Its wheel has no
headers of the toolkit (`cuda_fp16.h`, `mma.h`), so kernels include none.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seqtune.errors import FormatError, MissingPackageError, UnavailableError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.call import Call, CallStep
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.problem import Problem

from ..backend import BuildError
from ..compilers import CompiledStep
from ..image_cache import ImageCache
from .resources import Resources, read_resources, read_spills

INSTALL = "pip install 'seqtune[nvrtc]'"
OPTIONS = ("--ptxas-options=-v",)  # the assembler's messages tell the spills
_ERROR = re.compile(r"\berror\b|\bfatal\b")


@dataclass(frozen=True, slots=True)
class Image:
    """A compiled source: the cubin, and the resources of each of its entries."""

    cubin: bytes
    resources: dict[str, Resources]

    def symbol(self, entry: str) -> str:
        """The name of an entry in the image. Without `extern "C"`, C++ writes _Z5scalePf for scale(float *).

        Raises BuildError if there is no such entry, or several of the name.
        """
        if entry in self.resources:
            return entry
        prefix = f"_Z{len(entry)}{entry}"  # Itanium C++ ABI, section 5.1: a length, the name, the parameters' types
        symbols = [name for name in self.resources if name.startswith(prefix)]
        if len(symbols) == 1:
            return symbols[0]
        raise BuildError(f"the source has {len(symbols) or 'no'} entr{'ies' if symbols else 'y'} {entry!r:.60}; "
                         f"it has {', '.join(self.resources)}")

    def needs(self, step: CallStep) -> CompiledStep:
        """The needs of one step. Raises BuildError if the image lacks its entry."""
        needs = self.resources[self.symbol(step.entry)]
        assert step.local_size is not None
        return CompiledStep(step.entry, math.prod(step.local_size), needs.most_threads, needs.registers,
                            needs.shared + step.shared + step.local_bytes, needs.spill_stores + needs.spill_loads)


def load() -> Any:
    """The module of NVRTC's functions. Raises MissingPackageError."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise MissingPackageError(f"cuda-bindings is not installed ({one_line(error, 100)}): {INSTALL}") from None
    return nvrtc


@lru_cache(maxsize=1)
def version() -> str:
    """NVRTC's version, as in "13.0". Raises MissingPackageError if it is not installed."""
    nvrtc = load()
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except Exception as error:  # the library that loads shared libraries has exceptions of its own
        raise MissingPackageError(f"NVRTC is not installed ({one_line(error, 100)}): {INSTALL}") from None
    return f"{major}.{minor}"


@lru_cache(maxsize=1)
def architectures() -> tuple[int, ...]:
    """The compute capabilities for which NVRTC compiles: 75, 80, ... Raises UnavailableError."""
    version()
    return tuple(load().nvrtcGetSupportedArchs()[1])


def target(device: Device) -> str:
    """The architecture to compile for. Raises UnavailableError if NVRTC does not know the device's.

    Compute capability 9.0 gets `sm_90a`, because `wgmma` exists only there; such an image runs on no other GPU.
    """
    number = device.architecture.removeprefix("sm_")
    if not number.isdecimal() or int(number) not in architectures():
        known = ", ".join(map(str, architectures()))
        raise UnavailableError(f"NVRTC {version()} does not compile for {device.architecture:.20}; it knows {known}")
    return "sm_90a" if number == "90" else f"sm_{number}"


def run_nvrtc(text: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """Compile a text to a cubin; returns it and the compiler's messages. Raises BuildError."""
    return _result(text, options, "CUBIN")


def ptx_of(source: KernelSource, device: Device) -> bytes:
    """The text in PTX of a source, for the device's architecture. Raises BuildError, UnavailableError."""
    ptx, _ = _result(source.text, (f"--gpu-architecture={target(device)}", *source.options), "PTX")
    return ptx.rstrip(b"\0")


def _result(text: str, options: tuple[str, ...], kind: str) -> tuple[bytes, str]:
    """Compile a text to a CUBIN or PTX; returns it and the compiler's messages. Raises BuildError."""
    nvrtc = load()
    program = _checked(nvrtc, nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    try:
        status, = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = b" " * _checked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
        _checked(nvrtc, nvrtc.nvrtcGetProgramLog(program, log))
        messages = log.rstrip(b"\0 ").decode(errors="replace")
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise BuildError(error_line(messages) or f"NVRTC failed: {status.name}")
        result = b" " * _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{kind}Size")(program))
        _checked(nvrtc, getattr(nvrtc, f"nvrtcGet{kind}")(program, result))
        return result, messages
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def error_line(messages: str) -> str:
    """The first error in the compiler's messages in one line; the first message if none says so."""
    lines = [line for line in messages.splitlines() if line.strip()]
    return one_line(next((line for line in lines if _ERROR.search(line)), lines[0] if lines else ""))


def _checked(nvrtc: Any, answer: tuple[Any, ...]) -> Any:
    """The value of a call to NVRTC. Raises BuildError if the call failed."""
    status, *values = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise BuildError(f"NVRTC failed: {status.name}")
    return values[0] if values else None


class CubinCompiler:
    """Compiles sources for one device. Threads may share a compiler. Raises UnavailableError."""

    def __init__(self, device: Device, cache: ImageCache | None = None,
                 run: Callable[[str, tuple[str, ...]], tuple[bytes, str]] = run_nvrtc) -> None:
        """`run` compiles a text with options; returns the image and the compiler's messages."""
        self.device = device
        self.target = target(device)
        self.cache = cache or ImageCache("cubin")
        self._run = run

    def compile(self, source: KernelSource) -> Image:
        """Compile a source, or take it from the cache. Raises BuildError with the compiler's first error."""
        options = (f"--gpu-architecture={self.target}", *OPTIONS, *source.options)
        key = json.dumps([version(), options, source.text])
        cached = self.cache.get(key)
        if cached is not None:
            cubin, facts = cached
            with suppress(FormatError, LookupError, ValueError, TypeError, AttributeError):  # damaged: compiled again
                return Image(cubin, read_resources(cubin, {
                    str(entry): (int(stores), int(loads)) for entry, (stores, loads) in facts["spills"].items()}))
        cubin, messages = self._run(source.text, options)
        spills = read_spills(messages)
        try:
            image = Image(cubin, read_resources(cubin, spills))
        except FormatError as error:
            raise BuildError(str(error)) from None
        self.cache.put(key, cubin, {"spills": spills})
        return image

    def steps(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledStep, ...]:
        """Compile a configuration and return the needs of its launches. Raises BuildError."""
        call = call_of(kernel, problem, self.device, configuration)
        return compiled_steps(self.compile(call.source), call)

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        """The bytes of the cubin of a configuration. Raises BuildError."""
        return len(self.compile(call_of(kernel, problem, self.device, configuration).source).cubin)


def compiled_steps(image: Image, call: Call) -> tuple[CompiledStep, ...]:
    """The needs of each different launch of a call. Raises BuildError if the image lacks its entry."""
    return tuple(dict.fromkeys(image.needs(step) for step in call.steps))
