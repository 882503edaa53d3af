"""PoCL, the OpenCL implementation for CPUs that pip installs: its environment, its requirements, and one repair.

PoCL 3.0 contains LLVM 14, which gives a CPU newer than itself the name "generic", and then refuses that name: every
build fails with "unknown target CPU 'generic'". No setting changes this. Therefore `repair` writes the name of an older
CPU with the same instructions into PoCL's device structure. It does so only if the name is "generic" and the structure
holds exactly one pointer to it.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from seqtune.errors import is_installed
from seqtune.kernels.own_folders import cache_folder

NAME = "Portable Computing Language"  # the platform's name
PACKAGE = "pocl_binary_distribution"  # PoCL as pip installs it
INSTALL = "install a C compiler (Debian and Ubuntu: apt install gcc libc6-dev)"

_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_DEVICE_BYTES = 1024  # bytes searched for the name; PoCL 3.0's device structure has 1040, then other data follow
_names: list[ctypes.Array[ctypes.c_char]] = []  # CPU names that PoCL points to: they must outlive its devices


def prepare() -> None:
    """Set PoCL's environment variables, except those that the user set. Call it before importing pyopencl."""
    os.environ.setdefault("POCL_AFFINITY", "1")  # pinned threads: nearly twice as fast
    os.environ.setdefault("PATH", os.defpath)  # PoCL finds `ld` on the PATH alone, and without one aborts the process
    if "POCL_CACHE_DIR" not in os.environ:
        cache = cache_folder() / "pocl" / substitute()
        with suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
        if not os.access(cache, os.W_OK):  # PoCL cannot build without a writable folder
            cache = Path(tempfile.mkdtemp(prefix="seqtune-pocl-"))
            atexit.register(shutil.rmtree, cache, ignore_errors=True)
        os.environ["POCL_CACHE_DIR"] = str(cache)


def advice() -> str:
    """The way to get an OpenCL runtime for this CPU, for messages: PyPI has PoCL for Linux on x86-64 alone."""
    if sys.platform == "linux" and platform.machine() == "x86_64":
        return "pip install 'pyopencl[pocl]'"
    return "pip install pyopencl, and install PoCL or another OpenCL runtime from the system's packages"


def unavailable() -> str | None:
    """The reason why PoCL cannot run on this machine, or None."""
    linker = shutil.which("ld")
    if linker is None:
        return f"PoCL links its kernels with `ld`, which is not on the PATH: {INSTALL}"
    if is_installed(PACKAGE) and not _finds_libraries(linker):
        return f"PoCL links its kernels with libgcc and libc, which `ld` does not find: {INSTALL}"
    return None


@lru_cache(maxsize=1)
def _finds_libraries(linker: str) -> bool:
    """Whether the linker finds the libraries that LLVM 14's driver names for every kernel, in the folders it names.

    Where it does not, PoCL would abort the process.
    """
    machine = platform.machine()
    folders = [path.parent for path in Path("/usr").glob(f"lib*/gcc/{machine}-*/*/libgcc.a")]
    folders += [Path(name) for name in (f"/usr/lib/{machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib")]
    libraries = "-lgcc", "-lgcc_s", "-lc"
    command = [linker, "-shared", "-o", os.devnull, *(f"-L{folder}" for folder in folders), *libraries]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:  # no program of this system
        return False


@lru_cache(maxsize=1)
def host_flags() -> frozenset[str]:
    """The flags of this CPU in /proc/cpuinfo; empty on a system without that file."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def substitute() -> str:
    """The name of a CPU that LLVM 14 knows and whose instructions this CPU has."""
    flags = host_flags()
    if flags >= _AVX512:
        return "skylake-avx512"
    return "haswell" if {"avx2", "fma", "bmi2", "movbe"} <= flags else "x86-64"


def repair(name: str, address: int) -> str:
    """Make a device usable whose CPU LLVM names "generic". Returns the name of the CPU that PoCL compiles for.

    `name` ends with a dash and LLVM's name of the CPU (it is the last word of CL_DEVICE_VERSION). `address` is the
    address of PoCL's device structure, which is the value of an OpenCL device handle.
    """
    if not name.endswith("-generic") or not host_flags():  # the substitutes are x86's, and ARM has no line of flags
        return name.rsplit("-gnu-", 1)[-1]
    try:
        pointers = _pointers_to(b"generic\0", address)
    except OSError:
        return "generic"
    if len(pointers) != 1:
        return "generic"
    _names.append(ctypes.create_string_buffer(substitute().encode()))
    ctypes.c_void_p.from_address(pointers[0]).value = ctypes.addressof(_names[-1])
    return substitute()


def _pointers_to(text: bytes, address: int) -> list[int]:
    """The addresses of the structure's pointers to this text.

    Memory is read through /proc: an invalid pointer then raises an OSError and does not crash the process.
    """
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    pointers = []
    try:
        words = os.pread(memory, _DEVICE_BYTES, address)
        for offset in range(0, len(words) - 7, 8):
            pointer, = struct.unpack_from("<Q", words, offset)
            if 4096 < pointer < 1 << 47:
                with suppress(OSError):
                    if os.pread(memory, len(text), pointer) == text:
                        pointers.append(address + offset)
    finally:
        os.close(memory)
    return pointers
