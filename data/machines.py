"""Devices of several machines in one data set: they can share a name, and even a key.

The devices of two machines with one CPU model have one `Device.key`, although their caches may differ, as on cloud
machines. They are told apart by `Device.fingerprint`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from seqtune.kernels.devices.device import Device


def separated(devices: Mapping[str, Device], others: Mapping[str, Device]) -> dict[str, Device]:
    """The devices of `others` by their own keys, changed so that none shares a key with another machine in `devices`.

    Such a device gets its fingerprint in its model, which is part of the key; all other facts stay.
    """
    return {key: replace(device, model=f"{device.model} {device.fingerprint}".strip())
            if key in devices and devices[key].fingerprint != device.fingerprint else device
            for key, device in others.items()}


def with_capabilities(device: Device, same: Device) -> Device:
    """The device with the extra facts that only `same` has, the same device as another file or version recorded it."""
    missing = [fact for fact in same.extra if fact[0] not in dict(device.extra)]
    return replace(device, extra=(*device.extra, *missing)) if missing else device


def device_labels(devices: Iterable[Device]) -> dict[str, str]:
    """A short label for each device, by its key: the first unique one of name, name and architecture, and key."""
    distinct = {device.key: device for device in devices}
    labels = {key: device.name for key, device in distinct.items()}
    for longer in (lambda device: f"{device.name} {device.architecture}", lambda device: device.key):
        counts = Counter(labels.values())
        labels = {key: longer(distinct[key]) if counts[label] > 1 else label for key, label in labels.items()}
    return labels


def named_devices(devices: Mapping[str, Device], name: str) -> list[str]:
    """The keys of the devices with this key, label (`llvm:avx2:2 znver5`), name, or beginning of a name (`llvm:sse`).

    The prefix `recorded:` is optional.
    """
    wanted = name.strip().lower()
    return [key for key, device in devices.items() if f"{key.lower()} ".startswith(f"{wanted} ")
            or f"{device.name.lower()}:".startswith((f"{wanted}:", f"recorded:{wanted}:"))]


def other_machines(left_out: Mapping[tuple[str, str], int]) -> str:
    """The warning about records of a journal that are not of the machine whose facts it stores.

    `left_out` are the numbers of these records by name of the device and fingerprint of the machine.
    """
    listed = "; ".join(f"{count} of {name} with {machine}" for (name, machine), count in left_out.items())
    return ("records of another machine than the one whose device facts the journal stores are left out "
            f"({listed}): run `seqtune export` on that machine's own journal")
