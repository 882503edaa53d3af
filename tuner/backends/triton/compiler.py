"""Compiler of Triton kernels for any GPU of the table, present or not, with the resources that each needs.

Triton specialises a kernel for the integers it is launched with: 1 becomes a constant, and that 16 divides a number is
known to the compiler. The same rules are applied here, so that what is compiled is what a launch would compile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from seqtune.errors import UnavailableError, one_line
from seqtune.kernels.device import Device
from seqtune.kernels.implementation import KernelSource, Launch, Phase
from seqtune.kernels.kernel import Setting
from seqtune.kernels.lookup import resolve
from seqtune.kernels.triton.text import constants_of

from ..backend import BuildError

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")  # of Triton's compiler
BUFFERS = ("x", "weights", "bias", "y", "workspace")
INTEGERS = ("m", "n", "k")
POINTERS = {"fp32": "*fp32", "fp16": "*fp16", "bf16": "*bf16"}
ALIGNED = 16  # bytes of an address, and the divisor of integers, that Triton's launcher looks for
_AMD_RESOURCES = {  # name here -> the key in the metadata of LLVM's AMDGPU backend
    "registers": "vgpr_count", "spilled": "vgpr_spill_count", "local": "private_segment_fixed_size",
    "scalar_spilled": "sgpr_spill_count"}


@dataclass(frozen=True, slots=True)
class TritonBinary:
    """One compiled kernel: a cubin or an hsaco, and the bytes of shared memory that its launch asks for."""

    entry: str
    shared: int
    threads: int
    binary: bytes
    assembly: str  # PTX or amdgcn


def target_of(device: Device) -> Any:
    """Triton's name of the device's architecture. Raises UnavailableError without Triton."""
    try:
        from triton.backends.compiler import GPUTarget
    except ImportError:
        raise UnavailableError("Triton is not installed: pip install 'seqtune[triton]'") from None
    if device.architecture.startswith("sm_"):
        return GPUTarget("cuda", int(device.architecture.removeprefix("sm_")), 32)
    return GPUTarget("hip", device.architecture, int(device.names().get("warp_size", 64)))


def function_of(module: str, entry: str) -> Any:
    """The Triton function `entry` of a module of our sources."""
    return resolve(f"seqtune.kernels.triton.source.{module}:{entry}")


def compile_launch(source: KernelSource, launch: Launch, dtype: str, device: Device) -> list[TritonBinary]:
    """Compile every phase of a launch. Raises BuildError where Triton refuses, UnavailableError without Triton."""
    module, constants = constants_of(source)
    target = target_of(device)
    return [_compile(module, phase, constants, launch.arguments, dtype, target) for phase in launch.phases]


def _compile(module: str, phase: Phase, constants: dict[str, Setting], arguments: tuple[int, ...], dtype: str,
             target: Any) -> TritonBinary:
    import triton

    function = function_of(module, phase.entry)
    options = {name: constants[name] for name in OPTIONS if name in constants}
    try:
        compiled = triton.compile(_specialised(function, constants, arguments, dtype, target), target=target,
                                  options=options)
    except Exception as error:  # the passes raise RuntimeError, the front end CompilationError, ptxas PTXASError
        raise BuildError(one_line(error)) from None
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
            types[name] = "*fp32" if name == "workspace" else POINTERS[dtype]
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


def amd_resources(assembly: str) -> dict[str, int]:
    """Registers of a lane, spilled registers and private bytes, from the metadata that ends an amdgcn text."""
    found = {name: re.search(rf"\.{key}:\s+(\d+)", assembly) for name, key in _AMD_RESOURCES.items()}
    return {name: int(match[1]) for name, match in found.items() if match is not None}
