"""LLVM IR text -> machine code in this process, for one instruction set of this CPU."""

from __future__ import annotations

import platform
import re
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache

import llvmlite
import llvmlite.binding as llvm

from seqtune.tuner.backend import BuildError

KEPT = 3000  # built modules kept for reuse; each holds a few pages

_NOT_AVX2 = ("avx512", "avx10", "evex512", "amx", "prefer-256-bit", "avxvnniint")
_NOT_SSE = (*_NOT_AVX2, "avx", "fma", "f16c", "xop", "vaes", "vpclmulqdq", "sha512", "sm3", "sm4")
# instruction set -> (needed feature, forbidden feature prefixes, vector bits, vector registers), best first
INSTRUCTION_SETS: dict[str, tuple[str, tuple[str, ...], int, int]] = {
    "avx512": ("avx512vl", ("prefer-256-bit",), 512, 32),
    "avx2": ("fma", _NOT_AVX2, 256, 16),
    "sse": ("sse4.2", _NOT_SSE, 128, 16),
    "neon": ("neon", (), 128, 32),
}


@lru_cache(maxsize=1)
def host_features() -> dict[str, bool]:
    """What this CPU has, in LLVM's words. Empty where LLVM cannot tell."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the threads pause in inline assembly
    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:
        return {"neon": True} if platform.machine() in ("arm64", "aarch64") else {}


def instruction_sets() -> list[str]:
    """Those of this CPU, best first."""
    return [name for name, (needed, *_) in INSTRUCTION_SETS.items() if host_features().get(needed)]


def toolchain() -> str:
    """What turns text into code here."""
    return f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@dataclass(slots=True)
class Built:
    """One built module. Its code lives as long as this does."""

    engine: llvm.ExecutionEngine
    seconds: float = 0.0

    def address(self, entry: str) -> int:
        """Where a function starts. Raises BuildError where there is none."""
        found: int = self.engine.get_function_address(entry)
        if not found:
            raise BuildError(f"the source defines no {entry}")
        return found


class Compiler:
    """Builds for one instruction set; equal (text, options) once."""

    def __init__(self, instruction_set: str) -> None:
        forbidden = INSTRUCTION_SETS[instruction_set][1]
        features = {name: has and not name.startswith(forbidden) for name, has in host_features().items()}
        self._features = ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(features.items()))
        if instruction_set == "avx512":
            self._features += ",-prefer-256-bit"
        self._target = llvm.Target.from_default_triple()
        self._built: OrderedDict[tuple[str, tuple[str, ...]], Built] = OrderedDict()

    def build(self, text: str, options: tuple[str, ...] = ()) -> tuple[Built, bool]:
        """The module, and whether it was built just now. Raises BuildError."""
        key = (text, options)
        if key in self._built:
            self._built.move_to_end(key)
            return self._built[key], False
        built = self._built[key] = Built(self._compile(text))
        while len(self._built) > KEPT:
            self._built.popitem(last=False)
        return built, True

    def _compile(self, text: str) -> llvm.ExecutionEngine:
        try:
            module = llvm.parse_assembly(text)
            module.verify()
        except RuntimeError as error:
            raise BuildError(re.sub(r"\s+", " ", str(error))[:300]) from None
        machine = self._target.create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=self._features, opt=3, jit=True)
        module.triple = machine.triple
        engine = llvm.create_mcjit_compiler(module, machine)
        engine.finalize_object()
        return engine

    def close(self) -> None:
        """Forget what was built."""
        self._built.clear()
