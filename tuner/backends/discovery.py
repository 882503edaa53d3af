"""Discovery of devices: the devices that each backend finds on this machine, or the reason why it finds none."""

from __future__ import annotations

import importlib
from functools import lru_cache

from seqtune.errors import DeviceError, SeqtuneError, one_line
from seqtune.kernels.accelerators import described
from seqtune.kernels.device import Device

from .backend import BACKENDS


@lru_cache(maxsize=16)
def _discover(backend: str) -> tuple[tuple[Device, ...], str | None]:
    """Find one backend's devices, best first, or the reason why it has none. Rates are measured once per process."""
    try:
        module = importlib.import_module(BACKENDS[backend].partition(":")[0])
        reason = module.unavailable()
        return ((), str(reason)) if reason else (tuple(module.devices()), None)
    except ImportError as error:
        return (), f"{error.name or error} is not installed"
    except SeqtuneError as error:
        return (), str(error)
    except Exception as error:  # drivers raise exceptions of their own; other backends must stay usable
        return (), one_line(f"{type(error).__name__}: {error}")


def devices() -> list[Device]:
    """All devices of this machine, backend by backend, the best of each backend first."""
    return [device for backend in BACKENDS for device in _discover(backend)[0]]


def why_unavailable() -> dict[str, str]:
    """The reasons why backends have no device: name of the backend -> reason."""
    reasons: dict[str, str] = {}
    for backend in BACKENDS:
        present, reason = _discover(backend)
        if not present:
            reasons[backend] = reason or "no device found"
    return reasons


def find(name: str) -> Device:
    """Find a device by name (`llvm:avx2:1`), by family (`llvm:avx2`: its best device) or by number (`llvm:0`: best).

    Only the backend in the name is opened, unless it has no such device. A GPU that is not present is described by the
    table of accelerators (`cuda:h200`); one can predict and compile for it. Raises DeviceError.
    """
    backend, _, rest = name.strip().lower().partition(":")
    if backend in BACKENDS:
        present, reason = _discover(backend)
        for device in present:
            if device.name.lower() == name.strip().lower():
                return device
        if rest.isdecimal() and len(rest) < 6 and int(rest) < len(present):
            return present[int(rest)]
        for device in present:
            if not rest or (device.name.lower() + ":").startswith(f"{backend}:{rest}:"):
                return device
    gpu = described(backend, rest)
    if gpu is not None:
        return gpu
    if backend in BACKENDS and not present:
        raise DeviceError(f"no device {name!r:.60}: {backend} is unavailable here: {reason or 'no device found'}")
    listed = ", ".join(device.name for device in devices()) or "none"
    raise DeviceError(f"no device {name!r:.60}; found {listed} (seqtune devices lists them)")
