"""Discovery of devices: the devices that each backend finds on this machine, or the reason why it finds none.

A GPU of the table of accelerators, and a CPU of that of processors, is a device everywhere: one can predict and compile
for it, and nothing else.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping

from seqtune.errors import DeviceError, MisuseError, SeqtuneError, one_line
from seqtune.kernels.devices import accelerators, processors
from seqtune.kernels.devices.device import Device
from seqtune.kernels.lookup import resolve
from seqtune.kernels.registry import can_compile

# backend -> the module that finds its devices, in the order of `devices`: it has the functions `devices` and
# `unavailable`. What builds and measures is not imported to find them.
MODULES = {
    "llvm": "seqtune.tuner.backends.llvm.discovery",
    "opencl": "seqtune.tuner.backends.opencl.discovery",
    "triton": "seqtune.tuner.backends.triton.discovery",
    "cuda": "seqtune.tuner.backends.cuda.discovery",
    "command": "seqtune.tuner.backends.command.backend",
}
EXTRAS = {"opencl:intel-cpu": "intel-opencl"}  # a device -> the extra of seqtune that brings its runtime
# backend -> "module:attribute" of a function from a name to the device, or None. It finds devices that are not listed,
# too, and does not measure those that nobody named.
NAMED = {"llvm": "seqtune.tuner.backends.llvm.discovery:device_of",
         "miopen": "seqtune.integrations.miopen.kernels.gpus:device"}


Found = tuple[tuple[Device, ...], str | None]  # a backend's devices, best first, and the reason why it has none


def _find(module_name: str) -> Found:
    """Ask a backend's module for its devices."""
    try:
        module = importlib.import_module(module_name)
        reason = module.unavailable()
        return ((), str(reason)) if reason else (tuple(module.devices()), None)
    except ImportError as error:
        return (), f"{error.name or error} is not installed"
    except SeqtuneError as error:
        return (), str(error)
    except Exception as error:  # drivers raise exceptions of their own; other backends must stay usable
        return (), one_line(f"{type(error).__name__}: {error}")


class Discovery:
    """Finds the devices of a table of modules, those of each backend once: finding them may measure their rates."""

    def __init__(self, backends: Mapping[str, str] = MODULES, named: Mapping[str, str] = NAMED) -> None:
        self._backends, self._named = backends, named
        self._found: dict[str, Found] = {}
        self._processes: dict[str, int] = {}  # backend -> the process that opened its driver first

    def _discover(self, backend: str) -> Found:
        """Find one backend's devices once."""
        if backend not in self._found:
            self._processes.setdefault(backend, os.getpid())
            self._found[backend] = _find(self._backends[backend])
        return self._found[backend]

    def devices(self) -> list[Device]:
        """All devices of this machine, backend by backend, the best of each backend first."""
        return [device for backend in self._backends for device in self._discover(backend)[0]]

    def why_unavailable(self) -> dict[str, str]:
        """The reasons why backends have no device: name of the backend -> reason."""
        reasons: dict[str, str] = {}
        for backend in self._backends:
            present, reason = self._discover(backend)
            if not present:
                reasons[backend] = reason or "no device found"
        return reasons

    def find(self, name: str) -> Device:
        """Find a device by name (`llvm:avx2:1`), by family (`llvm:avx2`: its best device) or by number (`llvm:0`).

        Some devices are found by their names alone and not listed: llvm devices on some of the cores (`llvm:avx2:3`).
        A GPU that is not in this machine is found by its name in the table of accelerators (`cuda:h200`);
        `check_present` tells whether a device is here. Only the backend in the name is opened, unless it has no such
        device. Raises DeviceError.
        """
        backend, _, rest = name.strip().lower().partition(":")
        reason: str | None = None
        word, space, facts = name.strip().partition(" ")  # facts, which only some devices have, keep their letters
        if (named := self._device_named(backend, f"{word.lower()}{space}{facts}")) is not None:
            return named
        if backend in self._backends:
            present, reason = self._discover(backend)
            for device in present:
                if device.name.lower() == name.strip().lower():
                    return device
            if rest.isdecimal() and len(rest) < 6 and int(rest) < len(present):
                return present[int(rest)]
            for device in present:
                if not rest or (device.name.lower() + ":").startswith(f"{backend}:{rest}:"):
                    return device
            reason = reason or (None if present else "no device found")
        if (elsewhere := _in_a_table(backend, rest)) is not None:
            return elsewhere
        if reason is None and (extra := EXTRAS.get(name.strip().lower())) is not None:
            raise DeviceError(f"no device {name!r:.60} here: its runtime is an extra, pip install 'seqtune[{extra}]'")
        unavailable = f"{backend} is unavailable here: {reason}" if reason else ""
        models = [gpu.name for other in accelerators.BACKENDS
                  if (gpu := accelerators.described(other, rest)) is not None]
        if models and (backend in accelerators.BACKENDS or backend in ("hip", "rocm")):
            raise DeviceError(f"no device {name!r:.60}; this GPU is described as {' and '.join(models)}")
        if backend in accelerators.BACKENDS:
            raise DeviceError(f"no device {name!r:.60}; {_near(backend, rest)}{unavailable and '; ' + unavailable}")
        if unavailable:
            raise DeviceError(f"no device {name!r:.60}: {unavailable}")
        models = [gpu.name for other in accelerators.BACKENDS
                  if (gpu := accelerators.described(other, name)) is not None]
        if models:
            raise DeviceError(f"no device {name!r:.60}; name the backend, too: {' or '.join(models)}")
        listed = ", ".join(device.name for device in self.devices()) or "none"
        raise DeviceError(f"no device {name!r:.60}; found {listed} (seqtune devices lists them)")

    def _device_named(self, backend: str, name: str) -> Device | None:
        """The device of this name by the backend's own function; None if it has no such function or device."""
        if backend not in self._named:
            return None
        try:
            device: Device | None = resolve(self._named[backend])(name)  # type: ignore[operator]
        except ImportError:  # `_find` says what is missing
            return None
        return device

    def check_present(self, device: Device) -> None:
        """Check that kernels can run on the device here. Raises DeviceError if only a table has it."""
        if _in_a_table(device.backend, device.name.partition(":")[2]) is None:
            return
        present, reason = self._discover(device.backend) if device.backend in self._backends else ((), None)
        if all(other.name != device.name for other in present):
            why = f" ({device.backend} is unavailable: {reason})" if reason else ""
            raise DeviceError(f"{device.name} is not in this machine{why}; one can predict and compile for it, and not "
                              "measure on it")

    def check_process(self, device: Device) -> None:
        """Check that this process was not forked from one that opened the device's driver. Raises MisuseError.

        A forked process has none of the driver's threads, so that a call would wait for them for ever.
        """
        if self._processes.setdefault(device.backend, os.getpid()) != os.getpid():
            raise MisuseError(f"{device.name} was opened before this process was forked, which its driver does not "
                              'survive; use a process that is spawned (multiprocessing.get_context("spawn"))')


def _in_a_table(backend: str, model: str) -> Device | None:
    """The device of this name that need not be here, or None."""
    return processors.described(model) if backend == processors.BACKEND else accelerators.described(backend, model)


def described() -> list[Device]:
    """The GPUs and CPUs that one can predict and compile for on any machine; those that are present too.

    A GPU of the table that no kernel of a backend can be compiled for is not listed for that backend.
    """
    cpus = [device for name in processors.PROCESSORS if (device := processors.described(name)) is not None]
    return [*(device for backend in accelerators.BACKENDS for device in _described(backend)), *cpus]


def _described(backend: str) -> list[Device]:
    devices = (accelerators.described(backend, model) for model in accelerators.ACCELERATORS)
    return [device for device in devices if device is not None and can_compile(device)]


def _near(backend: str, model: str) -> str:
    """The described devices whose names are like this one's, for an error message."""
    names = [device.name for device in _described(backend)]
    near = [] if model.isdecimal() else accelerators.similar(model, [name.partition(":")[2] for name in names])
    listed = ", ".join(f"{backend}:{model}" for model in near) or f"{', '.join(names[:5])}, ..."
    return f"described GPUs are {listed} (seqtune devices --all lists them)"


_THIS_MACHINE = Discovery()
devices, why_unavailable = _THIS_MACHINE.devices, _THIS_MACHINE.why_unavailable
find = _THIS_MACHINE.find
check_present, check_process = _THIS_MACHINE.check_present, _THIS_MACHINE.check_process
