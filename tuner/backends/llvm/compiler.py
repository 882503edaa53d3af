"""Compiler: turns LLVM IR text into machine code in this process, for one instruction set of this CPU."""

from __future__ import annotations

import ctypes
import hashlib
import json
import platform
import re
import sys
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import llvmlite
import llvmlite.binding as llvm

from seqtune.errors import one_line

from ..backend import BuildError
from ..image_cache import ImageCache
from .arm_features import arm_features, is_arm, sve_bits

OPTIONS = {"opt": 3, "reloc": "pic", "jit": True}  # of the target machine
MODULES_KEPT = 6000  # compiled modules kept for reuse: more than two large spaces need; each takes about 60 KB

_NOT_AVX2 = ("avx512", "avx10", "evex512", "amx", "prefer-256-bit", "avxvnniint")
_NOT_SSE = (*_NOT_AVX2, "avx", "fma", "f16c", "xop", "vaes", "vpclmulqdq", "sha512", "sm3", "sm4")


class InstructionSet(NamedTuple):
    """The vectors of a CPU that a device computes with."""

    needed: tuple[str, ...]  # features
    forbidden: tuple[str, ...]  # prefixes of features that LLVM may not use
    vector_bits: int
    vector_registers: int
    scalable: bool = False  # the program learns the length of a vector from the CPU, which must be vector_bits


# Best first. avx512f has the 512-bit vectors and their multiply-add; without avx512vl, narrower vectors have only 16
# registers. Each length of ARM's scalable vectors is a set of its own, since kernels are made of vectors of one length;
# those of 128 bits do no more than neon.
INSTRUCTION_SETS: dict[str, InstructionSet] = {
    "avx512": InstructionSet(("avx512f", "avx512vl"), ("prefer-256-bit",), 512, 32),
    "avx2": InstructionSet(("avx2", "fma"), _NOT_AVX2, 256, 16),
    "sse": InstructionSet(("sse4.2",), _NOT_SSE, 128, 16),
    "sve512": InstructionSet(("sve",), (), 512, 32, scalable=True),
    "sve256": InstructionSet(("sve",), (), 256, 32, scalable=True),
    "neon": InstructionSet(("neon",), ("sve", "sme"), 128, 32),
}
_ARM = {"arm_fp16": "fullfp16", "arm_bf16": "bf16", "arm_i8mm": "i8mm"}
# instruction set -> fact of `device.CAPABILITIES` -> the feature that has it
_CAPABILITIES = {
    "avx512": {"bf16_dots": "avx512bf16", "int8_dots": "avx512vnni", "avx_vnni": "avxvnni", "amx_tile": "amx-tile",
               "amx_bf16": "amx-bf16", "amx_int8": "amx-int8"},
    "avx2": {"int8_dots": "avxvnni", "avx_vnni": "avxvnni"},
    "sve512": _ARM, "sve256": _ARM, "neon": _ARM}
_DEFINITION = re.compile(r"^(define [^{\n]*)\{$", re.MULTILINE)
# A float from memory in all lanes of a vector.
_BROADCAST = re.compile(
    r"^(  (%\S+) = load float, .*\n)"
    r"  (%\S+) = insertelement <(\d+) x float> poison, float \2, i32 0\n"
    r"  (%\S+) = shufflevector <\4 x float> \3, <\4 x float> poison, <\4 x i32> "
    r"(?:zeroinitializer|<i32 0(?:, i32 0)*>)$", re.MULTILINE)
_WHOLE_NUMBER = r"""\1  \2w = bitcast float \2 to i32
  \3 = insertelement <\4 x i32> poison, i32 \2w, i32 0
  \3w = shufflevector <\4 x i32> \3, <\4 x i32> poison, <\4 x i32> zeroinitializer
  \5 = bitcast <\4 x i32> \3w to <\4 x float>"""


@lru_cache(maxsize=1)
def host_features() -> dict[str, bool]:
    """The features of this CPU by LLVM's names, and whether programs can use them; empty where nothing tells them."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the threads pause in inline assembly
    try:
        features = dict(llvm.get_host_cpu_features())
    except RuntimeError:  # LLVM does not know this system
        features = {}
    return {**features, **arm_features()} if is_arm() else usable(features)


def instruction_sets(features: Mapping[str, bool] | None = None, scalable_bits: int | None = None) -> list[str]:
    """The instruction sets of a CPU with these features and scalable vectors (None: this CPU's), best first."""
    features = host_features() if features is None else features
    length = sve_bits() if scalable_bits is None else scalable_bits
    return [name for name, entry in INSTRUCTION_SETS.items()
            if all(map(features.get, entry.needed)) and (not entry.scalable or entry.vector_bits == length)]


def capabilities(instruction_set: str, features: Mapping[str, bool] | None = None) -> tuple[tuple[str, int], ...]:
    """The extra facts of a device with this instruction set on a CPU with these features (None: this CPU's).

    They are some of `device.CAPABILITIES`.
    """
    features = host_features() if features is None else features
    needed = _CAPABILITIES.get(instruction_set, {})
    return tuple((fact, 1) for fact, feature in needed.items() if features.get(feature))


def flags_for(instruction_set: str, features: Mapping[str, bool]) -> list[str]:
    """LLVM's flags for a CPU with these features whose programs use the instruction set."""
    forbidden = INSTRUCTION_SETS[instruction_set].forbidden
    allowed = {name: has and not name.startswith(forbidden) for name, has in features.items()}
    flags = [f"{'+' if has else '-'}{name}" for name, has in sorted(allowed.items())]
    return [*flags, "-prefer-256-bit"] if instruction_set == "avx512" else flags


def text_for(instruction_set: str, text: str) -> str:
    """The text of a module as LLVM compiles it for an instruction set.

    LLVM computes vectors of one length in scalable registers only in functions that state the registers' length, in
    units of 128 bits, and in pieces of 128 bits elsewhere. It loads a whole number into all lanes with one instruction
    (LD1RW), and a float with two: therefore floats become whole numbers on their way.
    """
    entry = INSTRUCTION_SETS[instruction_set]
    if not entry.scalable:
        return text
    units = entry.vector_bits // 128
    text = _BROADCAST.sub(_WHOLE_NUMBER, text)
    return _DEFINITION.sub(rf"\1vscale_range({units},{units}) {{", text)


def toolchain() -> str:
    """The versions of llvmlite and LLVM, which turn IR into machine code."""
    return f"llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@dataclass(slots=True)
class CompiledModule:
    """A compiled module. Its machine code lives as long as this object."""

    tracker: llvm.ResourceTracker
    entries: frozenset[str]

    def address(self, entry: str) -> int:
        """The address of a function. Raises BuildError if the module does not define it."""
        if entry not in self.entries:
            raise BuildError(f"the source defines no function {entry!r:.40}")
        address: int = self.tracker[entry]
        return address


class Compiler:
    """Compiles for one instruction set; equal (text, options) are compiled once.

    A `cache` keeps the machine code for other processes.
    """

    def __init__(self, instruction_set: str, cache: ImageCache | None = None) -> None:
        flags = flags_for(instruction_set, host_features())
        triple, cpu = llvm.get_default_triple(), llvm.get_host_cpu_name()
        self._instruction_set = instruction_set
        self._cache, self._target = cache, [toolchain(), triple, cpu, flags, OPTIONS]
        self._machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=",".join(flags), **OPTIONS)
        self._linker = llvm.create_lljit_compiler(use_jit_link=False)
        self._modules: OrderedDict[bytes, CompiledModule] = OrderedDict()
        self._libraries: dict[str, tuple[str, CompiledModule]] = {}  # text -> (name in the linker, module)
        self._count = 0

    def build(self, text: str, options: tuple[str, ...] = (), kept: bool = True) -> tuple[CompiledModule, bool]:
        """The compiled module, and whether this call compiled it. Options are the IR texts of modules that it calls.

        A text that holds addresses of this process is of no use to others: without `kept`, the cache is left alone.
        Raises BuildError.
        """
        key = hashlib.sha256("\0".join((text, *options)).encode()).digest()
        if key in self._modules:
            self._modules.move_to_end(key)
            return self._modules[key], False
        libraries = [self._library(option) for option in options]
        module = self._modules[key] = self._compile(text, libraries, kept)[1]
        while len(self._modules) > MODULES_KEPT:
            self._modules.popitem(last=False)
        return module, True

    def _library(self, text: str) -> str:
        if text not in self._libraries:
            self._libraries[text] = self._compile(text, [], kept=True)
        return self._libraries[text][0]

    def _compile(self, text: str, libraries: list[str], kept: bool) -> tuple[str, CompiledModule]:
        text = text_for(self._instruction_set, text)
        try:
            key = json.dumps([*self._target, text]) if kept else None
            cached = None if self._cache is None or key is None else self._cache.get(key)
            if cached is not None and isinstance(entries := cached[1].get("entries"), list):
                with suppress(RuntimeError):  # an image that does not link is compiled again
                    return self._link(cached[0], frozenset(map(str, entries)), libraries)
            image, defined = self._emit(text)
            linked = self._link(image, defined, libraries)
            if self._cache is not None and key is not None:
                self._cache.put(key, image, {"entries": sorted(defined)})
            return linked
        except RuntimeError as error:
            raise BuildError(one_line(error)) from None

    def _emit(self, text: str) -> tuple[bytes, frozenset[str]]:
        """Compile a text to an object file; also returns the functions that it defines.

        An engine for each module would keep its IR, about 1 MB each.
        """
        with llvm.parse_assembly(text, llvm.create_context()) as module:
            module.verify()
            defined = frozenset(function.name for function in module.functions
                                if not function.is_declaration and function.linkage == llvm.Linkage.external)
            return self._machine.emit_object(module), defined

    def _link(self, image: bytes, entries: frozenset[str], libraries: list[str]) -> tuple[str, CompiledModule]:
        """Load an object file; also returns its name in the linker."""
        library = llvm.JITLibraryBuilder().add_object_img(image).add_current_process()
        for entry in entries:
            library.export_symbol(entry)
        for called in libraries:
            library.add_jit_library(called)
        self._count += 1
        name = f"source{self._count}"
        return name, CompiledModule(library.link(self._linker, name), entries)

    def close(self) -> None:
        """Drop all compiled modules."""
        self._modules.clear()
        self._libraries.clear()


_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA


def request_permission() -> bool:
    """Ask Linux for the tile registers. Returns whether this process may use them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    return bool(ctypes.CDLL(None).syscall(_ARCH_PRCTL, _REQUEST, ctypes.c_ulong(_TILE_DATA)) == 0)


def usable(features: Mapping[str, bool]) -> dict[str, bool]:
    """The features of this CPU by LLVM's names, without AMX where this process may not use it."""
    if not features.get("amx-tile") or request_permission():
        return dict(features)
    return {name: has and not name.startswith("amx") for name, has in features.items()}
