"""LLVMOfflineCompiler: compiles llvm kernels to object files for a CPU that need not be present."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import llvmlite.binding as llvm

from seqtune.errors import MisuseError, UnavailableError, one_line
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.processors import PROCESSORS
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.launches.implementation import KernelSource
from seqtune.kernels.llvm.launch import llvm_implementation
from seqtune.kernels.problem import Problem

from ..backend import BuildError
from ..compilers import CompiledStep
from .compiler import INSTRUCTION_SETS, OPTIONS, flags_for, host_features, text_for
from .facts import cpu_name


class LLVMOfflineCompiler:
    """Compiles for one device: a processor of the table, or one of this CPU.

    Raises MisuseError for another device, and UnavailableError where this LLVM does not compile for its machine.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._sizes: dict[KernelSource, int] = {}
        entry = PROCESSORS.get(device.architecture)
        if entry is not None:
            triple, cpu = entry.triple, device.architecture
            needed = INSTRUCTION_SETS[device.instruction_set].needed
            flags = flags_for(device.instruction_set, {"sve": False, **dict.fromkeys(needed, True)})
        elif device.architecture == cpu_name():
            triple, cpu = llvm.get_default_triple(), device.architecture
            flags = flags_for(device.instruction_set, host_features())
        else:
            raise MisuseError(f"no CPU {device.architecture!r:.40} is described; there are {', '.join(PROCESSORS)}")
        self.triple, self._flags = triple, flags
        try:
            llvm.initialize_all_targets()
            llvm.initialize_all_asmprinters()
            self._machine = llvm.Target.from_triple(triple).create_target_machine(
                cpu=cpu, features=",".join(flags), **{**OPTIONS, "jit": False})
        except RuntimeError as error:
            raise UnavailableError(f"this LLVM does not compile for {triple}: {one_line(error)}") from None

    def steps(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> tuple[CompiledStep, ...]:
        """Compile a configuration. Raises BuildError. The needs of a CPU's kernels are not read: there are no steps."""
        self.objects(llvm_implementation(kernel).source(problem, self.device, configuration))
        return ()

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        """The bytes of the object files of a configuration; equal sources are compiled once. Raises BuildError."""
        source = llvm_implementation(kernel).source(problem, self.device, configuration)
        if source not in self._sizes:
            self._sizes[source] = sum(map(len, self.objects(source)))
        return self._sizes[source]

    def objects(self, source: KernelSource) -> list[bytes]:
        """The object files of a source and of the modules that it calls. Raises BuildError."""
        return [self._emitted(text, assembly=False) for text in _texts(source)]

    def library(self, source: KernelSource, names: Mapping[str, str]) -> tuple[bytes, str]:
        """One object file of a source with the modules that it calls, and its text.

        Its functions with these names get others; no other function can be seen from outside. Raises BuildError.
        """
        context = llvm.create_context()
        try:
            first, *further = (llvm.parse_assembly(text_for(self.device.instruction_set, text), context)
                               for text in _texts(source))
            for module in further:
                first.link_in(module)
            with first as module:
                for function in module.functions:
                    if function.name in names:
                        function.name = names[function.name]
                    elif not function.is_declaration:
                        function.linkage = llvm.Linkage.internal
                module.verify()
                return self._machine.emit_object(module), str(module)
        except RuntimeError as error:
            raise BuildError(one_line(error)) from None

    @property
    def features(self) -> frozenset[str]:
        """The features of a CPU, by LLVM's names, that its programs may use."""
        return frozenset(flag[1:] for flag in self._flags if flag.startswith("+"))

    def assembly(self, source: KernelSource) -> str:
        """The assembly of a source and the modules that it calls. Raises BuildError."""
        return "".join(self._emitted(text, assembly=True).decode() for text in _texts(source))

    def _emitted(self, text: str, assembly: bool) -> bytes:
        try:
            with llvm.parse_assembly(text_for(self.device.instruction_set, text), llvm.create_context()) as module:
                module.verify()
                emitted: bytes = (self._machine.emit_assembly(module).encode() if assembly
                                  else self._machine.emit_object(module))
                return emitted
        except RuntimeError as error:
            raise BuildError(one_line(error)) from None


def _texts(source: KernelSource) -> Iterable[str]:
    return (source.text, *source.options)
