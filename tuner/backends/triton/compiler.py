"""TritonCompiler: compiles Triton kernels for any GPU of the table, present or not, and reads what each needs.

Triton specialises a kernel for the integers it is launched with: 1 becomes a constant, and that 16 divides a number is
known to the compiler. The same rules are applied here, so that what is compiled is what a launch would compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seqtune.errors import FormatError, check_installed, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.kernel import Configuration, Kernel, Setting
from seqtune.kernels.launches.call import (
    Argument,
    BufferArgument,
    Call,
    CallStep,
    NullArgument,
    ScalarArgument,
    WorkspaceArgument,
)
from seqtune.kernels.launches.call_declaration import call_of
from seqtune.kernels.lookup import resolve
from seqtune.kernels.problem import Problem
from seqtune.kernels.triton.text import constants_of

from ..backend import BuildError
from ..compilers import CompiledStep
from ..cuda.resources import read_resources

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")  # of Triton's compiler
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

    def needs(self) -> CompiledStep:
        """The needs of a launch: registers of a lane, bytes of shared and of local memory. Raises FormatError.

        NVIDIA's cubin and the metadata that end AMD's assembly state them. Arrays that registers cannot hold are
        local memory, too, but our kernels have none, so all of it is spilled registers.
        """
        if self.binary.startswith(b"\x7fELF") and ".amdgcn_target" not in self.assembly:
            needs = read_resources(self.binary, {})[self.entry]
            return CompiledStep(self.entry, self.threads, needs.most_threads, needs.registers, self.shared,
                                 needs.stack)
        return CompiledStep(self.entry, self.threads, 0, _stated("vgpr_count", self.assembly), self.shared,
                             _stated("private_segment_fixed_size", self.assembly))


class TritonCompiler:
    """Compiles configurations for one GPU of the table. Raises MissingPackageError without Triton."""

    def __init__(self, device: Device) -> None:
        self.device = device
        target_of(device)

    def steps(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledStep, ...]:
        """Compile a configuration and return the needs of its launches. Raises BuildError, FormatError."""
        call = call_of(kernel, problem, self.device, configuration)
        return tuple(binary.needs() for binary in compile_call(call, self.device))

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        """The bytes of the binaries of a configuration. Raises BuildError."""
        call = call_of(kernel, problem, self.device, configuration)
        return sum(len(binary.binary) for binary in compile_call(call, self.device))


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


def tuner_of(function: Any) -> Any:
    """The Autotuner that the decorator triton.autotune makes of a function; None if it has no such decorator."""
    from triton.runtime.autotuner import Autotuner

    return function if isinstance(function, Autotuner) else None


def untuned(function: Any) -> Any:
    """The function below the decorator triton.autotune, which runs one configuration."""
    return function if tuner_of(function) is None else function.fn


def compile_call(call: Call, device: Device) -> list[TritonBinary]:
    """Compile every step of a call. Raises BuildError where Triton refuses, MissingPackageError without Triton."""
    module, constants = constants_of(call.source)
    target = target_of(device)
    return [_compile(module, step, constants, target) for step in call.steps]


def _compile(module: str, step: CallStep, constants: dict[str, Setting], target: Any) -> TritonBinary:
    import triton

    function = untuned(function_of(module, step.entry))
    options = FUSION | {name: constants[name] for name in OPTIONS if name in constants}
    try:
        compiled = triton.compile(_specialised(function, constants, step.arguments, target), target=target,
                                  options=options)
    except Exception as error:  # the passes raise RuntimeError, the front end CompilationError, ptxas PTXASError
        lines = [line for line in str(error).splitlines() if line.strip(" ^\t")]  # the last one states the reason
        raise BuildError(one_line(f"{type(error).__name__}: {lines[-1] if lines else ''}")) from None
    binary = "cubin" if target.backend == "cuda" else "hsaco"
    return TritonBinary(compiled.metadata.name, int(compiled.metadata.shared),
                        int(options["num_warps"]) * target.warp_size, compiled.asm[binary],
                        compiled.asm["ptx" if target.backend == "cuda" else "amdgcn"])


def _specialised(function: Any, constants: dict[str, Setting], arguments: Sequence[Argument], target: Any) -> Any:
    """The function with the types and known divisors of its first parameters, and constants for the others."""
    from triton.compiler import ASTSource

    names = list(function.arg_names)
    types = dict.fromkeys(names, "constexpr")
    values: dict[tuple[int, ...], Any] = {
        (index,): constants.get(name) for index, name in enumerate(names) if index >= len(arguments)}
    attributes: dict[tuple[int, ...], list[list[Any]]] = {}
    for index, (name, argument) in enumerate(zip(names, arguments, strict=False)):
        if isinstance(argument, BufferArgument | WorkspaceArgument | NullArgument):
            types[name] = f"*{element_type(argument.dtype).triton}"
            attributes[index,] = [["tt.divisibility", ALIGNED]]
            if target.backend == "hip":
                attributes[index,].append(["tt.pointer_range", 32])  # the tensor is smaller than 2 GiB
        elif (number := integer_of(argument)) == 1:
            values[index,] = number
        else:
            types[name] = "i32"
            if number % ALIGNED == 0:
                attributes[index,] = [["tt.divisibility", ALIGNED]]
    return ASTSource(fn=function, signature=types, constexprs=values, attrs=attributes)


def integer_of(argument: Argument) -> int:
    """The number of a whole scalar argument. Raises BuildError for other arguments: our kernels have none."""
    if not isinstance(argument, ScalarArgument) or argument.dtype != "int32":
        raise BuildError(f"Triton kernels here take buffers and int32 numbers, not {argument}")
    return int(argument.number)


def _stated(key: str, assembly: str) -> int:
    """A number of the metadata with which LLVM's AMDGPU backend ends a kernel's text. Raises FormatError."""
    match = re.search(rf"\.{key}:\s+(\d+)", assembly)
    if match is None:
        raise FormatError(f"the compiled kernel does not state its {key}")
    return int(match[1])
