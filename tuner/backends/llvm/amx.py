"""Permission for AMX, whose registers take 8 KiB of each thread: Linux lets a process use them after it asked.

Threads and forked processes inherit the permission; a new program asks again, as every `Compiler` does.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Mapping

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
