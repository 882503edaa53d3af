"""The device that Triton runs on: the GPU that PyTorch uses, described by the table of accelerators."""

from __future__ import annotations

from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device

from ..api.inputs import as_device
from ..errors import DeviceError


def running_device(given: Device | str | None) -> Device:
    """The GPU that PyTorch uses now; without one, the `given` device. Raises DeviceError where there is neither."""
    from seqtune.tuner.backends.triton.discovery import current

    device = current()
    if device is not None:
        return device
    if given is None:
        raise DeviceError("no GPU is running here; name the one to predict for, as in device='triton:h200'")
    if isinstance(given, str) and ":" not in given and (named := described("triton", given)) is not None:
        return named
    return as_device(given)
