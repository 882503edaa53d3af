"""The folder of llvm kernels: a static library for C99 with its header, made of an object file for each source.

The functions need no runtime. Kernels with equal sources share an object file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import ComputedPacking, LLVMImplementation, llvm_implementation
from seqtune.kernels.operations.tensor import Tensors

from ..backends.llvm.arm_features import is_arm
from ..backends.llvm.backend import constant_argument, plain_tensors
from ..backends.llvm.compiler import INSTRUCTION_SETS
from ..backends.llvm.offline_compiler import LLVMOfflineCompiler
from ..backends.stored_operands import stored
from .check import check_of
from .check_header import check_header
from .chosen import Chosen, Files, filled, template
from .cpu_text import CpuKernel, support_text
from .description import LAUNCH_JSON, README, described_launch, launch_json, readme
from .packing import operand_loops

LIBRARY = "kernels"  # the name of a library of several kernels

_HOW = """Compile the library, compare its kernels with references and time them:

    make && make check

A program includes `{library}.h`, where the functions are described: `{name}` takes plain arrays; `{name}_run` \
allocates nothing; `{name}_share` runs a part of the work for threads of your own. Link it as the library was \
compiled, with or without OpenMP (`make OPENMP=` compiles it for one thread):

    cc -std=c99 -O2 program.c lib{library}.a -fopenmp -lm

The object files need {needs}; elsewhere the functions return a code that `{library}_error` explains. `*.ll` are their \
texts, for LLVM."""


def folder(chosen: Sequence[Chosen]) -> Files:
    """The files of a library of kernels of one device. Raises BuildError, KernelError, MisuseError, UnavailableError.
    """
    device, library = chosen[0].device, chosen[0].name if len(chosen) == 1 else LIBRARY
    compiler, (kernels, objects) = LLVMOfflineCompiler(device), _kernels(chosen, library)
    files: Files = {}
    for source, (name, entries) in objects.items():
        files[f"{name}.o"], text = compiler.library(source, entries)
        files[f"{name}.ll"] = text.encode()
    arm, entry = is_arm(compiler.triple.partition("-")[0]), INSTRUCTION_SETS[device.instruction_set]
    headers, supported = support_text(compiler.features, arm, entry.vector_bits if entry.scalable else 0)
    about = chosen[0].problem.brief() if len(chosen) == 1 else f"{len(chosen)} kernels for {device.name}"
    words = {"library": library, "LIBRARY": library.upper(), "name": chosen[0].name, "about": about,
             "needs": f"{device.instruction_set} as {device.architecture} has it", "headers": headers,
             "supported": supported, "objects": " ".join(f"{name}.o" for name, _ in objects.values())}
    header = filled("cpu.h", {**words, "kernels": "".join(kernel.declarations() for kernel in kernels)})
    functions = filled("cpu.c", {**words, "kernels": "".join(kernel.source() for kernel in kernels)})
    checks = check_header(library, [kernel.checked() for kernel in kernels], 3, '"this CPU"')
    return {README: readme(chosen, [_HOW.format(**words)]),
            LAUNCH_JSON: launch_json([(kernel.chosen, _part(kernel)) for kernel in kernels]),
            f"{library}.h": header.encode(), f"{library}.c": functions.encode(), "check.c": template("check.c"),
            "arrays.h": template("arrays.h"), "check.h": checks.encode(),
            "Makefile": filled("Makefile", words).encode(), **files}


def _kernels(chosen: Sequence[Chosen],
             library: str) -> tuple[list[CpuKernel], dict[KernelSource, tuple[str, dict[str, str]]]]:
    """The kernels; and the name of each source's object file, with the names of the source's entries in it."""
    kernels: list[CpuKernel] = []
    objects: dict[KernelSource, tuple[str, dict[str, str]]] = {}
    for each in chosen:
        problem, device, configuration = each.problem, each.device, each.configuration
        code = llvm_implementation(each.kernel)
        source, launch = code.source(problem, device, configuration), code.launch(problem, device, configuration)
        name, entries = objects.setdefault(source, (each.name, {}))
        entries |= {phase.entry: f"{name}_{phase.entry}" for phase in launch.phases}
        check = check_of(each, plain_tensors(problem))
        kernels.append(CpuKernel(library, each, check, *_packing(each, code, check.tensors), launch, entries))
    return kernels, objects


def _part(kernel: CpuKernel) -> dict[str, object]:
    """The part of launch.json about a kernel."""
    packed: dict[str, tuple[int, dict[str, object]]] = {}
    if kernel.constant is not None:
        size = element_type(kernel.check.tensors.inputs[kernel.constant].dtype).size
        packed[kernel.constant] = kernel.packed_bytes // size, {"packed_by": f"{kernel.chosen.name}_pack"}
    return {**described_launch(kernel.launch, kernel.check.tensors, packed, kernel.entries),
            "check": kernel.check.to_json()}


def _packing(chosen: Chosen, code: LLVMImplementation, tensors: Tensors) -> tuple[str, int]:
    """The function NAME_order, and the bytes of the packed constant."""
    problem, argument = chosen.problem, constant_argument(code, chosen.problem, chosen.device, chosen.configuration)
    if argument is None:
        return "", 0
    name, shape = f"{chosen.name}_order", tensors.inputs[argument.name].shape
    packed_bytes = stored(np.zeros(shape, problem.element.host), argument).nbytes
    if isinstance(code, ComputedPacking):
        text = code.pack_text(problem, chosen.device, chosen.configuration, name)
        if text is not None:
            return text, packed_bytes
    return operand_loops(argument, tensors, problem).c(name), packed_bytes
