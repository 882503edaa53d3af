"""ArmFeatures: what an ARM CPU of 64 bits can do, by LLVM's names; LLVM itself does not say it on every system.

Linux tells programs by two words of bits (HWCAP, HWCAP2 of asm/hwcap.h, read with getauxval). macOS has a variable for
each (`sysctl hw.optional.arm`). Elsewhere only what all these CPUs have is known: vectors of 128 bits.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import lru_cache

MACHINES = ("aarch64", "arm64")  # what `platform.machine` calls them on Linux and on macOS; on Windows in capitals
_WORDS = (16, 26)  # AT_HWCAP, AT_HWCAP2
_SVE_GET_LENGTH, _SVE_LENGTH = 51, 0xFFFF  # PR_SVE_GET_VL, PR_SVE_VL_LEN_MASK
# LLVM's name -> (word, bit) on Linux, and the name of macOS's variable
_FEATURES: dict[str, tuple[tuple[int, int], str]] = {
    "neon": ((0, 1), "AdvSIMD"),
    "lse": ((0, 8), "FEAT_LSE"),
    "fullfp16": ((0, 10), "FEAT_FP16"),
    "rdm": ((0, 12), "FEAT_RDM"),
    "dotprod": ((0, 20), "FEAT_DotProd"),
    "sve": ((0, 22), "FEAT_SVE"),
    "fp16fml": ((0, 23), "FEAT_FHM"),
    "sve2": ((1, 1), "FEAT_SVE2"),
    "i8mm": ((1, 13), "FEAT_I8MM"),
    "bf16": ((1, 14), "FEAT_BF16"),
}
# Bits of a program's registers on other systems than Linux: none of them has programs with these instructions.
_ALWAYS = ("neon",)


def is_arm(machine: str | None = None) -> bool:
    """Whether a machine (None: this one) has an ARM CPU of 64 bits."""
    return (platform.machine() if machine is None else machine).lower() in MACHINES


def arm_features() -> dict[str, bool]:
    """The features of this ARM CPU, and whether it has them."""
    if sys.platform == "linux":
        return features_of(*_hardware_words())
    if sys.platform == "darwin":
        return {name: name in _ALWAYS or mac_number(f"hw.optional.arm.{variable}") == 1
                for name, (_, variable) in _FEATURES.items()}
    return {name: name in _ALWAYS for name in _FEATURES}


def features_of(first: int, second: int) -> dict[str, bool]:
    """The features that Linux's words HWCAP and HWCAP2 tell."""
    words = (first, second)
    return {name: name in _ALWAYS or bool(words[word] >> bit & 1) for name, ((word, bit), _) in _FEATURES.items()}


def sve_bits() -> int:
    """The bits of this CPU's scalable vectors; 0 where programs cannot use any."""
    if sys.platform != "linux" or not is_arm() or not arm_features()["sve"]:
        return 0
    length = int(ctypes.CDLL(None).prctl(_SVE_GET_LENGTH, 0, 0, 0, 0))
    return 8 * (length & _SVE_LENGTH) if length > 0 else 0


def _hardware_words() -> tuple[int, int]:
    """HWCAP and HWCAP2 of this process; zeros where the C library has no getauxval."""
    try:
        auxiliary = ctypes.CDLL(None).getauxval
    except (OSError, AttributeError):
        return 0, 0
    auxiliary.argtypes, auxiliary.restype = (ctypes.c_ulong,), ctypes.c_ulong
    first, second = map(int, map(auxiliary, _WORDS))
    return first, second


@lru_cache(maxsize=256)
def mac_number(name: str) -> int:
    """The whole number in one of macOS's variables (sysctl); 0 where there is none of this name."""
    value = mac_variable(name)
    return int.from_bytes(value, sys.byteorder) if len(value) in (4, 8) else 0


def mac_variable(name: str) -> bytes:
    """The content of one of macOS's variables (sysctl); empty where there is none of this name."""
    try:
        read = ctypes.CDLL(None).sysctlbyname
    except (OSError, AttributeError, TypeError):
        return b""
    size = ctypes.c_size_t(256)
    content = ctypes.create_string_buffer(size.value)
    failed = read(name.encode(), content, ctypes.byref(size), None, ctypes.c_size_t(0))
    return b"" if failed else content.raw[:size.value]
