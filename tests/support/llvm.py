"""The CPU of this machine, for tests of what LLVM compiles."""

from __future__ import annotations

import llvmlite.binding as binding
import pytest

from seqtune.kernels.launches.implementation import KernelSource
from seqtune.tuner.backends.llvm import discovery as llvm
from seqtune.tuner.backends.llvm.compiler import OPTIONS

needs_llvm = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))
DEVICES = [] if llvm.unavailable() else llvm.devices()


def x86_assembly(source: KernelSource, cpu: str) -> str:
    """The assembly of a source for an x86 CPU by LLVM's name, with all its instructions; skips the test without it."""
    try:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        machine = binding.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(
            cpu=cpu, features="", **{**OPTIONS, "jit": False})
    except RuntimeError as error:
        pytest.skip(f"this LLVM does not compile for x86: {error}")
    with binding.parse_assembly(source.text, binding.create_context()) as module:
        module.verify()
        return str(machine.emit_assembly(module))
