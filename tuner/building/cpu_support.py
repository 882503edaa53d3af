"""CPU support: text in C that asks at run time whether a CPU has the instructions that an object file needs."""

from __future__ import annotations

from collections.abc import Collection

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
