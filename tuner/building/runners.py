"""Runners: they run built kernels, in place on arrays of the CPU or on buffers of another device."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import encode
from seqtune.kernels.llvm.aligned import aligned
from seqtune.kernels.llvm.launch import llvm_implementation

from ..backends import discovery
from ..backends.backend import LaunchError, build_executable, open_backend
from ..backends.llvm.backend import LLVMBackend
from ..backends.llvm.compiler import Compiler
from ..backends.llvm.threads import KernelJob, Turn
from ..backends.stored_operands import stored
from .chosen import Chosen
from .operands import Packed, Signature


class _Opened:
    """The open backend of a device, which all its built kernels of this process share; they take turns."""

    def __init__(self, device: Device) -> None:
        self.turn = Turn()
        self.backend: Any = LLVMBackend(device, pins_caller=False) if device.backend == "llvm" else open_backend(device)
        weakref.finalize(self, self.backend.close)


_OPENED: weakref.WeakValueDictionary[Device, _Opened] = weakref.WeakValueDictionary()
_OPENING = threading.Lock()


def _opened(device: Device) -> _Opened:
    """The backend of a device, opened for its first kernel and closed after its last one. Raises what opening does."""
    with _OPENING:
        opened = _OPENED.get(device)
        if opened is None:
            opened = _OPENED[device] = _Opened(device)
        return opened


class InPlaceRunner:
    """Runs an llvm kernel on the caller's arrays."""

    def __init__(self, chosen: Chosen, signature: Signature) -> None:
        problem, device, configuration = chosen.problem, chosen.device, chosen.configuration
        code = llvm_implementation(chosen.kernel)
        self._opened = _opened(device)
        self._compiler = Compiler(device.instruction_set)
        source, launch = code.source(problem, device, configuration), code.launch(problem, device, configuration)
        self._job = KernelJob(self._compiler.build(source.text, source.options)[0], launch)
        self._workspace = aligned((launch.workspace,))
        self._workspace_address = self._workspace.ctypes.data if launch.workspace else 0
        self._inputs, (self._y,), self._constant = signature.inputs, signature.outputs, signature.constant

    def run(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Run on the operands, of which the constant may be Packed, and the output. Raises MisuseError."""
        kept: list[NDArray[Any]] = []  # constants that are packed for this call
        addresses: list[int] = []
        y = self._y.address(outputs[0], written=True)
        end = y + self._y.bytes
        for place, value in zip(self._inputs, values, strict=True):
            if type(value) is Packed:
                addresses.append(value.address)
                continue
            address = place.address(value)
            if address < end and y < address + place.bytes:
                raise MisuseError(f"the output overlaps {place.name}; kernels read their operands while they write")
            if self._constant is not None and place.name == self._constant.name:
                kept.append(stored(place.numbers(value), self._constant))
                address = int(kept[-1].ctypes.data)
            addresses.append(address)
        with self._opened.turn:
            self._job.bind(addresses, y, self._workspace_address)
            self._opened.backend.threads.run(self._job.address)

    def close(self) -> None:
        """Free the code."""
        self._compiler.close()


class BufferRunner:
    """Runs a kernel on buffers of its device, to and from which arrays are copied."""

    def __init__(self, chosen: Chosen, signature: Signature) -> None:
        discovery.check_process(chosen.device)
        self._opened, self._device, self._signature = _opened(chosen.device), chosen.device, signature
        self._held: dict[str, Packed] = {}  # the packed constants that the buffers hold
        with self._opened.turn:
            self._executable = build_executable(self._opened.backend, chosen.problem, chosen.kernel,
                                                chosen.configuration)

    def run(self, values: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Copy the operands, launch, and copy the results. Raises MisuseError, SeqtuneError."""
        signature = self._signature
        discovery.check_process(self._device)
        views = [place.view(value, written=True) for place, value in zip(signature.outputs, outputs, strict=True)]
        for (one, view), (other, second) in combinations(zip(signature.outputs, views, strict=True), 2):
            if np.may_share_memory(view, second):
                raise MisuseError(f"the outputs {one.name} and {other.name} overlap; give each an array of its own")
        arrays = {place.name: place.numbers(view) for place, view in zip(signature.outputs, views, strict=True)
                  if place.name in signature.begins}
        with self._opened.turn:
            for place, value in zip(signature.inputs, values, strict=True):
                if type(value) is not Packed:
                    self._held.pop(place.name, None)
                    arrays[place.name] = place.numbers(value)
                elif self._held.get(place.name) is not value:
                    self._held[place.name], arrays[place.name] = value, value.original
            try:
                self._executable.load(arrays)
                self._executable.run()
                results = self._executable.outputs()
            except LaunchError as error:
                self._held.clear()
                raise SeqtuneError(f"the launch failed: {error}") from None
        for place, view in zip(signature.outputs, views, strict=True):
            result = results[place.name]
            np.copyto(view, result if result.dtype == view.dtype else encode(result, place.dtype))

    def close(self) -> None:
        """Free the buffers; a forked process leaves them to that which it was forked from."""
        with suppress(MisuseError):
            discovery.check_process(self._device)
            with self._opened.turn:
                self._executable.close()


def open_runner(chosen: Chosen, signature: Signature) -> InPlaceRunner | BufferRunner:
    """Build a kernel to run it. Raises DeviceError and UnavailableError if the device is not here, SeqtuneError if it
    refuses the kernel, BuildError if the compiler does.
    """
    discovery.check_present(chosen.device)
    try:
        return (InPlaceRunner if chosen.device.backend == "llvm" else BufferRunner)(chosen, signature)
    except LaunchError as error:
        raise SeqtuneError(f"{chosen.device.name} refuses the kernel: {error}") from None
