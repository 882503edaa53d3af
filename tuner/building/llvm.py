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
from .chosen import Chosen, Files, template
from .cpu_support import support_text
from .cpu_text import CpuKernel, library_header, library_source
from .description import LAUNCH_JSON, README, described_launch, launch_json, readme
from .packing import operand_loops

LIBRARY = "kernels"  # the name of a library of several kernels

_MAKEFILE = """\
# make: the static library lib{library}.a    make check: compares its kernels with references, and times them
# make OPENMP= compiles for one thread.    make clean: removes what was compiled
CC = cc
CFLAGS = -std=c99 -O2
OPENMP := $(shell echo 'int main(void) {{ return 0; }}' | $(CC) -fopenmp -x c - -o /dev/null 2>/dev/null \\
\t&& echo -fopenmp)

lib{library}.a: {library}.c {library}.h {objects} flags
\t$(CC) $(CFLAGS) $(OPENMP) -c {library}.c -o {library}_functions.o
\trm -f $@
\tar rcs $@ {library}_functions.o {objects}

check: run_check
\t./run_check

%.o: %.c    # the object files of the kernels are there already

run_check: check.c check.h arrays.h lib{library}.a
\t$(CC) $(CFLAGS) $(OPENMP) -o $@ check.c lib{library}.a -lm

flags: force    # other flags compile anew
\t@echo '$(CC) $(CFLAGS) $(OPENMP)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(OPENMP)' > $@

clean:
\trm -f lib{library}.a {library}_functions.o run_check flags

.PHONY: check clean force
"""
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
    compiler = LLVMOfflineCompiler(device)
    files: Files = {}
    names: dict[KernelSource, dict[str, str]] = {}  # source -> entry -> its name in the object file
    objects: dict[KernelSource, str] = {}
    kernels = []
    for one in chosen:
        code = llvm_implementation(one.kernel)
        source = code.source(one.problem, device, one.configuration)
        launch = code.launch(one.problem, device, one.configuration)
        entries, first = names.setdefault(source, {}), objects.setdefault(source, one.name)
        entries |= {phase.entry: f"{first}_{phase.entry}" for phase in launch.phases}
        tensors = plain_tensors(one.problem)
        kernels.append(CpuKernel(one, tensors, *_packing(one, code, tensors), launch, entries,
                                 check_of(one, tensors, f"reference_{one.name}")))
    for source, name in objects.items():
        files[f"{name}.o"], text = compiler.library(source, names[source])
        files[f"{name}.ll"] = text.encode()
    arm, entry = is_arm(compiler.triple.partition("-")[0]), INSTRUCTION_SETS[device.instruction_set]
    headers, supported = support_text(compiler.features, arm, entry.vector_bits if entry.scalable else 0)
    needs = f"{device.instruction_set} as {device.architecture} has it"
    about = chosen[0].problem.brief() if len(chosen) == 1 else f"{len(chosen)} kernels for {device.name}"
    return {
        README: readme(chosen, [_HOW.format(library=library, name=chosen[0].name, needs=needs)]),
        LAUNCH_JSON: launch_json([(kernel.chosen, _part(kernel)) for kernel in kernels]),
        f"{library}.h": library_header(library, kernels, about).encode(),
        f"{library}.c": library_source(library, kernels, needs, headers, supported).encode(),
        "check.c": template("check.c"), "arrays.h": template("arrays.h"),
        "check.h": check_header(library, [kernel.checked(library) for kernel in kernels], 3, '"this CPU"').encode(),
        "Makefile": _MAKEFILE.format(library=library, objects=" ".join(f"{name}.o" for name in objects.values())
                                     ).encode(), **files}


def _part(kernel: CpuKernel) -> dict[str, object]:
    """The part of launch.json about a kernel."""
    packed: dict[str, tuple[int, dict[str, object]]] = {}
    if kernel.constant is not None:
        size = element_type(kernel.tensors.inputs[kernel.constant].dtype).size
        packed[kernel.constant] = kernel.packed_bytes // size, {"packed_by": f"{kernel.chosen.name}_pack"}
    return {**described_launch(kernel.launch, kernel.tensors, packed), "check": kernel.check.to_json()}


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
