"""Discovery of devices: what each backend finds on this machine, and why one finds nothing."""

from __future__ import annotations

import importlib
from functools import lru_cache

from seqtune.errors import DeviceError, SeqtuneError, one_line
from seqtune.kernels.device import Device

from .backend import BACKENDS


@lru_cache(maxsize=16)
def _discover(backend: str) -> tuple[tuple[Device, ...], str | None]:
    """The devices of one backend, best first, and why there are none. Measured facts are measured once a process."""
    try:
        module = importlib.import_module(BACKENDS[backend].partition(":")[0])
        reason = module.unavailable()
        return ((), str(reason)) if reason else (tuple(module.devices()), None)
    except ImportError as error:
        return (), f"{error.name or error} is not installed"
    except SeqtuneError as error:
        return (), str(error)
    except Exception as error:  # a driver's own exceptions; none may take the others down
        return (), one_line(f"{type(error).__name__}: {error}")


def devices() -> list[Device]:
    """Every device here, backend by backend, the best of each first."""
    return [device for backend in BACKENDS for device in _discover(backend)[0]]


def why_unavailable() -> dict[str, str]:
    """Why a backend has no device, by backend."""
    found: dict[str, str] = {}
    for backend in BACKENDS:
        here, reason = _discover(backend)
        if not here:
            found[backend] = reason or "it finds no device"
    return found


def find(name: str) -> Device:
    """The device of that name: `llvm:avx2:1`, `llvm:avx2` (the best of these), or `llvm:0` (by number; 0 is the best).

    Only the backend named is asked. Raises DeviceError.
    """
    backend, _, rest = name.strip().lower().partition(":")
    if backend in BACKENDS:
        here, reason = _discover(backend)
        for device in here:
            if device.name.lower() == name.strip().lower():
                return device
        if rest.isdecimal() and len(rest) < 6 and int(rest) < len(here):
            return here[int(rest)]
        for device in here:
            if not rest or (device.name.lower() + ":").startswith(f"{backend}:{rest}:"):
                return device
        if not here:
            raise DeviceError(f"no device {name!r:.60}: {backend} is unavailable here: {reason or 'no device found'}")
    found = ", ".join(device.name for device in devices()) or "none"
    raise DeviceError(f"no device {name!r:.60}; found {found} (seqtune devices lists them)")
