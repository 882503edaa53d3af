"""Compiler of Triton kernels for any GPU of the table, present or not, with the resources that each needs.

Triton specialises a kernel for the integers it is launched with: 1 becomes a constant, and that 16 divides a number is
known to the compiler. The same rules are applied here, so that what is compiled is what a launch would compile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from seqtune.errors import FormatError, check_installed, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import ELEMENT_TYPES
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.launches.implementation import KernelSource, Launch, Phase, implementation_of
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.triton.text import constants_of

from ..backend import BuildError
from ..compiled_phase import CompiledPhase
from ..cuda.resources import read_resources

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")  # of Triton's compiler
BUFFERS = ("x", "weights", "bias", "y", "workspace")
FUSION = {"enable_fp_fusion": True}  # stated, as Triton 3.9 warns of another default in 3.10 where it is not
ALIGNED = 16  # bytes of an address, and the divisor of integers, that Triton's launcher looks for


@dataclass(frozen=True, slots=True)
class TritonBinary:
    """One compiled kernel: a cubin or an hsaco, and the bytes of shared memory that its launch asks for."""

    entry: str
    shared: int
    threads: int
    binary: bytes
    assembly: str  # PTX or amdgcn

    def needs(self) -> CompiledPhase:
        """The needs of its launch: registers of a lane, shared memory, bytes of local memory. Raises FormatError.

        NVIDIA's cubin and the metadata that end AMD's assembly state them. Arrays that registers cannot hold are
        local memory, too, but our kernels have none, so all of it is spilled registers.
        """
        if self.binary.startswith(b"\x7fELF") and ".amdgcn_target" not in self.assembly:
            needs = read_resources(self.binary, {})[self.entry]
            return CompiledPhase(self.entry, self.threads, needs.most_threads, needs.registers, self.shared,
                                 needs.stack)
        return CompiledPhase(self.entry, self.threads, 0, _stated("vgpr_count", self.assembly), self.shared,
                             _stated("private_segment_fixed_size", self.assembly))


class TritonCompiler:
    """Compiles configurations for one GPU of the table. Raises MissingPackageError without Triton."""

    def __init__(self, device: Device) -> None:
        self.device = device
        target_of(device)

    def phases(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledPhase, ...]:
        """Compile a configuration and return the needs of its launch. Raises BuildError, FormatError."""
        implementation = implementation_of(kernel)
        source = implementation.source(problem, self.device, configuration)
        launch = implementation.launch(problem, self.device, configuration)
        return tuple(binary.needs() for binary in compile_launch(source, launch, problem.dtype, self.device))


def target_of(device: Device) -> Any:
    """Triton's name of the device's architecture. Raises MissingPackageError without Triton."""
    check_installed("triton", "triton")
    from triton.backends.compiler import GPUTarget

    if device.architecture.startswith("sm_"):
        return GPUTarget("cuda", int(device.architecture.removeprefix("sm_")), 32)
    return GPUTarget("hip", device.architecture, int(device.names().get("warp_size", 64)))


def function_of(module: str, entry: str) -> Any:
    """The Triton function `entry` of a module of our sources."""
    return resolve(f"seqtune.kernels.triton.source.{module}:{entry}")


def compile_launch(source: KernelSource, launch: Launch, dtype: str, device: Device) -> list[TritonBinary]:
    """Compile every phase of a launch. Raises BuildError where Triton refuses, MissingPackageError without Triton."""
    module, constants = constants_of(source)
    target = target_of(device)
    return [_compile(module, phase, constants, launch.arguments, dtype, target) for phase in launch.phases]


def _compile(module: str, phase: Phase, constants: dict[str, Setting], arguments: tuple[int, ...], dtype: str,
             target: Any) -> TritonBinary:
    import triton

    function = function_of(module, phase.entry)
    options = FUSION | {name: constants[name] for name in OPTIONS if name in constants}
    try:
        compiled = triton.compile(_specialised(function, constants, arguments, dtype, target), target=target,
                                  options=options)
    except Exception as error:  # the passes raise RuntimeError, the front end CompilationError, ptxas PTXASError
        lines = [line for line in str(error).splitlines() if line.strip(" ^\t")]  # the last one states the reason
        raise BuildError(one_line(f"{type(error).__name__}: {lines[-1] if lines else ''}")) from None
    binary = "cubin" if target.backend == "cuda" else "hsaco"
    return TritonBinary(compiled.metadata.name, int(compiled.metadata.shared),
                        int(options["num_warps"]) * target.warp_size, compiled.asm[binary],
                        compiled.asm["ptx" if target.backend == "cuda" else "amdgcn"])


def _specialised(function: Any, constants: dict[str, Setting], arguments: tuple[int, ...], dtype: str,
                 target: Any) -> Any:
    """The function for these argument types, constants and known divisors."""
    from triton.compiler import ASTSource

    names = list(function.arg_names)
    types = dict.fromkeys(names, "constexpr")
    values: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    integers = dict(zip((name for name in names if name not in BUFFERS and not name.isupper()), arguments, strict=True))
    for index, name in enumerate(names):
        if name in BUFFERS:
            types[name] = "*" + ELEMENT_TYPES["fp32" if name == "workspace" else dtype].triton
            attributes[index,] = [["tt.divisibility", ALIGNED]]
            if target.backend == "hip":
                attributes[index,].append(["tt.pointer_range", 32])  # the tensor is smaller than 2 GiB
        elif name in integers and integers[name] != 1:
            types[name] = "i32"
            if integers[name] % ALIGNED == 0:
                attributes[index,] = [["tt.divisibility", ALIGNED]]
        else:
            values[index,] = integers.get(name, constants.get(name))
    return ASTSource(fn=function, signature=types, constexprs=values, attrs=attributes)


def _stated(key: str, assembly: str) -> int:
    """A number of the metadata with which LLVM's AMDGPU backend ends a kernel's text. Raises FormatError."""
    match = re.search(rf"\.{key}:\s+(\d+)", assembly)
    if match is None:
        raise FormatError(f"the compiled kernel does not state its {key}")
    return int(match[1])
