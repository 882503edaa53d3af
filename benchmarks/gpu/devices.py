"""Further devices of a GPU day: Triton's view of the GPU, and the CPU of the machine."""

from __future__ import annotations

from benchmarks.gpu.day import Day
from benchmarks.gpu.stand_in import stand_in_of
from seqtune.errors import DeviceError, UnavailableError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.registry import table
from seqtune.tuner.backends.discovery import check_present, find

HOST = ("llvm:0", "opencl:0")


def triton_device(day: Day) -> Device:
    """Triton's device of the day's GPU. Raises UnavailableError if there is none, or no Triton kernel."""
    if not table("triton"):
        raise UnavailableError("no Triton kernel is registered")
    if day.dry:
        device = described("triton", "h200")
        assert device is not None
        return stand_in_of(device)
    try:
        device = find("triton:0")
        check_present(device)
    except DeviceError as error:
        raise UnavailableError(str(error)) from None
    return device


def host_devices(day: Day) -> list[Device]:
    """The CPU's best device of each backend that is here, without the day's own device."""
    devices = []
    for name in HOST:
        try:
            device = find(name)
        except DeviceError as error:
            day.say(f"  {name} is left out: {error}")
            continue
        if device.key != day.device.key:
            devices.append(stand_in_of(device) if day.dry else device)
    return devices
