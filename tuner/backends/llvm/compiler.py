"""LLVM IR text -> machine code in this process, for one instruction set of this CPU."""

from __future__ import annotations

import hashlib
import platform
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache

import llvmlite
import llvmlite.binding as llvm

from seqtune.errors import one_line

from ..backend import BuildError

KEPT = 6000  # built modules kept for reuse: more than two large spaces; each holds about 60 KB

_NOT_AVX2 = ("avx512", "avx10", "evex512", "amx", "prefer-256-bit", "avxvnniint")
_NOT_SSE = (*_NOT_AVX2, "avx", "fma", "f16c", "xop", "vaes", "vpclmulqdq", "sha512", "sm3", "sm4")
# instruction set -> (needed features, forbidden feature prefixes, vector bits, vector registers), best first.
# avx512f has the 512-bit vectors and their fma; without avx512vl narrower ones have 16 registers alone.
INSTRUCTION_SETS: dict[str, tuple[tuple[str, ...], tuple[str, ...], int, int]] = {
    "avx512": (("avx512f", "avx512vl"), ("prefer-256-bit",), 512, 32),
    "avx2": (("avx2", "fma"), _NOT_AVX2, 256, 16),
    "sse": (("sse4.2",), _NOT_SSE, 128, 16),
    "neon": (("neon",), (), 128, 32),
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
    has = host_features()
    return [name for name, (needed, *_) in INSTRUCTION_SETS.items() if all(map(has.get, needed))]


def toolchain() -> str:
    """What turns text into code here."""
    return f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@dataclass(slots=True)
class Built:
    """One built module. Its code lives as long as this does."""

    tracker: llvm.ResourceTracker
    entries: frozenset[str]

    def address(self, entry: str) -> int:
        """Where a function starts. Raises BuildError where there is none."""
        if entry not in self.entries:
            raise BuildError(f"the source defines no {entry!r:.40}")
        found: int = self.tracker[entry]
        return found


class Compiler:
    """Builds for one instruction set; equal (text, options) once."""

    def __init__(self, instruction_set: str) -> None:
        forbidden = INSTRUCTION_SETS[instruction_set][1]
        features = {name: has and not name.startswith(forbidden) for name, has in host_features().items()}
        flags = [f"{'+' if has else '-'}{name}" for name, has in sorted(features.items())]
        if instruction_set == "avx512":
            flags.append("-prefer-256-bit")
        self._machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(), features=",".join(flags), opt=3, reloc="pic", jit=True)
        self._linker = llvm.create_lljit_compiler(use_jit_link=False)
        self._built: OrderedDict[bytes, Built] = OrderedDict()
        self._libraries: dict[str, tuple[str, Built]] = {}  # text -> its name among the linker's libraries
        self._count = 0

    def build(self, text: str, options: tuple[str, ...] = ()) -> tuple[Built, bool]:
        """The module, and whether it was built just now. Options are the texts of modules that it calls into.

        Raises BuildError.
        """
        key = hashlib.sha256("\0".join((text, *options)).encode()).digest()
        if key in self._built:
            self._built.move_to_end(key)
            return self._built[key], False
        libraries = [self._library(option) for option in options]
        built = self._built[key] = self._compile(text, libraries)[1]
        while len(self._built) > KEPT:
            self._built.popitem(last=False)
        return built, True

    def _library(self, text: str) -> str:
        if text not in self._libraries:
            self._libraries[text] = self._compile(text, [])
        return self._libraries[text][0]

    def _compile(self, text: str, libraries: list[str]) -> tuple[str, Built]:
        # To an object first: an engine per module would keep its IR, a megabyte each.
        try:
            with llvm.parse_assembly(text, llvm.create_context()) as module:
                module.verify()
                entries = frozenset(function.name for function in module.functions
                                    if not function.is_declaration and function.linkage == llvm.Linkage.external)
                image = self._machine.emit_object(module)
            library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
            for entry in entries:
                library.export_symbol(entry)
            for name in libraries:
                library.add_jit_library(name)
            self._count += 1
            own = f"source{self._count}"
            return own, Built(library.link(self._linker, own), entries)
        except RuntimeError as error:
            raise BuildError(one_line(error)) from None

    def close(self) -> None:
        """Forget what was built."""
        self._built.clear()
        self._libraries.clear()
