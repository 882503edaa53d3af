"""CPU text: the C99 functions of llvm kernels, their header, and how check.c runs them.

A kernel has three functions: one for plain arrays, one that takes packed constants and a workspace and allocates
nothing, and one that runs a share of a phase for callers with threads of their own. A phase has as many shares as the
device has threads, since these determine the pieces of the workspace. The texts are `templates/cpu*`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from seqtune.kernels.llvm.launch import Launch
from seqtune.kernels.operations.operation import MOST_OPERANDS
from seqtune.kernels.operations.table import operation

from .c_language import C_TYPES, array_line, c_array
from .check import Check
from .check_header import CheckedKernel
from .chosen import Chosen, filled


@dataclass(frozen=True)
class CpuKernel:
    """One kernel as the texts need it."""

    library: str
    chosen: Chosen
    check: Check
    pack: str  # the text of static void NAME_order(const TYPE *, void *); empty without a constant
    packed_bytes: int
    launch: Launch
    entries: Mapping[str, str]  # entry of a phase -> its name in the object

    def source(self) -> str:
        """The functions."""
        return filled("cpu_kernel.c", self._words)

    def declarations(self) -> str:
        """The part of the header."""
        return filled("cpu_kernel.h", self._words)

    def checked(self) -> CheckedKernel:
        """The kernel as check.c runs it: by the plain function, by the one that allocates nothing, and in shares."""
        name = self.chosen.name
        return CheckedKernel(self.chosen, self.check, filled("cpu_check.c", self._words),
                             f"{name.upper()}_PACKED_BYTES", f"{name.upper()}_WORKSPACE_BYTES")

    @property
    def constant(self) -> str | None:
        """The operand that is packed."""
        return operation(self.chosen.problem.type).constant

    @cached_property
    def _plain(self) -> dict[str, str]:
        """The parameters of plain operands by name."""
        return {operand: f"const {C_TYPES[tensor.dtype]} *{operand}"
                for operand, tensor in self.check.tensors.inputs.items()}

    @cached_property
    def _words(self) -> dict[str, object]:
        """The words of the templates. `packed` stands for the constant where it is packed."""
        chosen, check, launch, plain = self.chosen, self.check, self.launch, self._plain
        given = ["packed" if operand == self.constant else operand for operand in plain]
        first, further = given[:MOST_OPERANDS], given[MOST_OPERANDS:]  # the latter are the last arguments
        arguments = [*map(_number, launch.arguments[:len(launch.arguments) - len(further)]),
                     *(f"(int64_t)(intptr_t){operand}" for operand in further)]
        places = {array: f"arrays[{number}]" for number, array in enumerate(check.arrays)}
        return {
            "library": self.library, "name": chosen.name, "NAME": chosen.name.upper(), "problem": chosen.problem.key,
            "configuration": chosen.brief(), "shares": chosen.device.threads, "phase_count": len(launch.phases),
            "workspace_bytes": 4 * launch.workspace, "packed_bytes": self.packed_bytes,
            "arrays": "\n".join(map(array_line, check.arrays, check.arrays.values())),
            "y": C_TYPES[check.tensors.outputs["y"].dtype], "plain": ", ".join(plain.values()),
            "packed": ", ".join((plain | {self.constant: "const void *packed"} if self.constant else plain).values()),
            "given": ", ".join(given), "plain_arrays": ", ".join(places.values()),
            "packed_arrays": ", ".join((places | {self.constant: "packed"} if self.constant else places).values()),
            "entries": ", ".join(dict.fromkeys(self.entries.values())),
            "phases": ", ".join(c_array((self.entries[phase.entry], phase.tasks, phase.runs))
                                for phase in launch.phases),
            "addresses": ", ".join([*first, *["NULL"] * (MOST_OPERANDS - len(first))]),
            "arguments": ", ".join(arguments) or "0", **self._pack_words(places)}

    def _pack_words(self, places: Mapping[str, str]) -> dict[str, str]:
        """The function that packs the constant, its declaration, and its calls on operands and on `places`."""
        name, constant = self.chosen.name, self.constant
        if constant is None:
            return {"pack": "", "pack_declared": "", "pack_call": "", "pack_arrays": "(void)packed;"}
        head = f"void {name}_pack({self._plain[constant]}, void *packed)"
        return {"pack": f"\n{self.pack}\n{head}\n{{\n    {name}_order({constant}, packed);\n}}\n",
                "pack_declared": f"/* The order of {constant} in which the kernel reads it. */\n{head};\n",
                "pack_call": f"        {name}_pack({constant}, packed);\n",
                "pack_arrays": f"{name}_pack({places[constant]}, packed);"}


def _number(value: int) -> str:
    """An integer of 64 bits in C."""
    return f"INT64_C({value})" if value > -(1 << 63) else "INT64_MIN"


# What __builtin_cpu_supports of GCC 11 and Clang 12, and of later ones, can be asked.
_ASKED = ("sse4.1", "sse4.2", "popcnt", "avx", "avx2", "fma", "bmi", "bmi2", "avx512f", "avx512vl", "avx512bw",
          "avx512dq", "avx512cd", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512bitalg",
          "avx512vpopcntdq", "avx512bf16")
_ARM = {"sve": "getauxval(AT_HWCAP) >> 22 & 1", "fullfp16": "getauxval(AT_HWCAP) >> 10 & 1",
        "bf16": "getauxval(26) >> 14 & 1", "i8mm": "getauxval(26) >> 13 & 1"}  # 26: AT_HWCAP2
_X86_HEADERS = "#include <cpuid.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
_ARM_HEADERS = "#include <sys/auxv.h>\n#include <sys/prctl.h>\n"
_AVX_VNNI = """\
static int has_avx_vnni(void)
{
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}

"""
# Linux lets a process use tile registers after it asked; threads inherit the permission.
_AMX = "syscall(SYS_arch_prctl, 0x1023, 18) == 0"


def support_text(features: Collection[str], is_arm: bool, vector_bits: int = 0) -> tuple[str, str]:
    """The lines of headers, and `static int supported(void)`, for the features of a CPU by LLVM's names.

    `vector_bits` is the length of scalable vectors, 0 where there are none.
    """
    if is_arm:
        asked = [test for feature, test in _ARM.items() if feature in features]
        length = [f"(prctl(51) & 0xffff) == {vector_bits // 8}"] if vector_bits else []
        return _ARM_HEADERS if asked else "", _function([*asked, *length], "")
    asked = [f'__builtin_cpu_supports("{feature}")' for feature in _ASKED if feature in features]
    helpers = ""
    if "avxvnni" in features:
        asked, helpers = [*asked, "has_avx_vnni()"], _AVX_VNNI
    if "amx-tile" in features:
        asked = [*asked, _AMX]
    return _X86_HEADERS, _function(asked, helpers)


def _function(tests: list[str], helpers: str) -> str:
    condition = "\n        && ".join(tests) or "1"
    return f"{helpers}static int supported(void)\n{{\n    return {condition};\n}}\n"
