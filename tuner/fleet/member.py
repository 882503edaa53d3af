"""Member: one device of the fleet, on one host. Members that are alike share the trials of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device

Likeness = tuple[str, str, str]  # Device.key, Device.fingerprint, Device.toolchain


@dataclass(frozen=True, slots=True)
class Member:
    """A device that measures, and what is known of its host."""

    name: str  # unique in the fleet, the same after a restart: "node1/llvm:avx512:2"
    device: Device
    host: str = ""  # the name of its machine, which records carry
    allowance: float = 0.0  # seconds that its backend may take to build, where that is more than the options allow

    @property
    def likeness(self) -> Likeness:
        """The members with this likeness form a group: a trial of one of them is a trial of all."""
        return self.device.key, self.device.fingerprint, self.device.toolchain

    def to_json(self) -> dict[str, object]:
        """A JSON object, for messages between driver and member."""
        return {"name": self.name, "device": self.device.to_json(), "host": self.host, "allowance": self.allowance}

    @classmethod
    def from_json(cls, content: Mapping[str, object]) -> Member:
        """The inverse of `to_json`. Raises FormatError."""
        name, device, host, allowance = (content.get(key) for key in ("name", "device", "host", "allowance"))
        if not (isinstance(name, str) and name and isinstance(host, str) and isinstance(device, Mapping)
                and isinstance(allowance, int | float) and not isinstance(allowance, bool)):
            raise FormatError("a member of the fleet described itself without name, device, host or allowance")
        return cls(name, Device.from_json(device), host, float(allowance))
