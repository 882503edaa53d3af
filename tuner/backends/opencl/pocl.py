"""PoCL, the OpenCL implementation that pip brings for CPUs: its environment, its needs, and one repair.

PoCL 3.0 carries LLVM 14, which calls a CPU newer than itself "generic", and then refuses its own name: every build
ends with "unknown target CPU 'generic'". No setting overrides that, so `repair` writes the name of an older CPU with
the same instructions into PoCL's device. It does so only where PoCL says "generic" and the name is found once.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import shutil
import struct
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from platformdirs import user_cache_dir

NAME = "Portable Computing Language"  # the platform's name

_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_DEVICE_BYTES = 1024  # searched for the name; PoCL 3.0's device structure has 1040, what lies behind is not its own
_kept: list[ctypes.Array[ctypes.c_char]] = []  # names that PoCL points to, for as long as the process lives


def prepare() -> None:
    """Set PoCL's environment; call it before pyopencl is imported. What the user set stays."""
    os.environ.setdefault("POCL_AFFINITY", "1")  # pinned threads: nearly twice as fast
    if "POCL_CACHE_DIR" not in os.environ:
        cache = Path(user_cache_dir("seqtune")) / "pocl" / substitute()
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
        if not os.access(cache, os.W_OK):  # PoCL builds nothing without a folder to write to
            cache = Path(tempfile.mkdtemp(prefix="seqtune-pocl-"))
            atexit.register(shutil.rmtree, cache, ignore_errors=True)
        os.environ["POCL_CACHE_DIR"] = str(cache)


def unavailable() -> str | None:
    """Why PoCL cannot run here."""
    if shutil.which("ld") is None:
        return "PoCL links its kernels with `ld`, which is not on the PATH: install binutils"
    return None


@lru_cache(maxsize=1)
def host_flags() -> frozenset[str]:
    """Instruction sets of this CPU in the words of /proc/cpuinfo; empty where there is none."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def substitute() -> str:
    """The CPU known to LLVM 14 whose instructions this one has."""
    flags = host_flags()
    if flags >= _AVX512:
        return "skylake-avx512"
    return "haswell" if {"avx2", "fma", "bmi2", "movbe"} <= flags else "x86-64"


def repair(name: str, address: int) -> str:
    """Make a device that LLVM calls generic usable; returns the CPU that PoCL compiles for.

    `name` holds LLVM's name after the last dash (it is the end of CL_DEVICE_VERSION's HSTR); `address` is where PoCL's
    device structure lies, which is what an OpenCL device handle is.
    """
    if not name.endswith("-generic"):
        return name.rsplit("-gnu-", 1)[-1]
    try:
        places = _pointers_to(b"generic\0", address)
    except OSError:
        return "generic"
    if len(places) != 1:
        return "generic"
    _kept.append(ctypes.create_string_buffer(substitute().encode()))
    ctypes.c_void_p.from_address(places[0]).value = ctypes.addressof(_kept[-1])
    return substitute()


def _pointers_to(text: bytes, address: int) -> list[int]:
    """Where the structure at `address` points to that text. A stray pointer read through the system only fails."""
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    places = []
    try:
        words = os.pread(memory, _DEVICE_BYTES, address)
        for place in range(0, len(words) - 7, 8):
            pointer, = struct.unpack_from("<Q", words, place)
            if 4096 < pointer < 1 << 47:
                with suppress(OSError):
                    if os.pread(memory, len(text), pointer) == text:
                        places.append(address + place)
    finally:
        os.close(memory)
    return places
