"""ResourceUsage: the registers and memory that a built configuration needs on a GPU, kept with its measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The needs of a built configuration; of a launch with several entries, the worst value of each need.

    A launch does not say which of its entries is the main one. It is nearly always the one with the largest needs: the
    others (the sum of a split product, a transform) use few registers and no shared memory.
    """

    registers: int  # a thread's, of 32 bits each; at least 1
    shared_bytes: int  # a block's: static and dynamic shared memory, without the driver's reserve
    spill_bytes: int  # bytes that a thread stores and loads because it has too few registers
    occupancy: float  # share of a unit's warps that run at a time, 0 to 1; 0 if a block does not fit

    def __post_init__(self) -> None:
        if self.registers < 1 or min(self.shared_bytes, self.spill_bytes) < 0 or not 0 <= self.occupancy <= 1:
            raise ValueError(f"not the resources of a kernel: {self}")

    @classmethod
    def worst(cls, usages: Iterable[ResourceUsage]) -> ResourceUsage | None:
        """The worst value of each need; None if there are no usages."""
        usages = list(usages)
        if not usages:
            return None
        return cls(max(usage.registers for usage in usages), max(usage.shared_bytes for usage in usages),
                   max(usage.spill_bytes for usage in usages), min(usage.occupancy for usage in usages))

    def to_json(self) -> dict[str, int | float]:
        """A flat JSON object."""
        return {"registers": self.registers, "shared_bytes": self.shared_bytes, "spill_bytes": self.spill_bytes,
                "occupancy": self.occupancy}

    @classmethod
    def from_json(cls, content: object) -> ResourceUsage:
        """The inverse of `to_json`. Raises ValueError."""
        if not isinstance(content, Mapping):
            raise ValueError(f"not the resources of a kernel: {content!r:.60}")
        registers, shared, spills, share = map(content.get, ("registers", "shared_bytes", "spill_bytes", "occupancy"))
        if not (isinstance(registers, int) and isinstance(shared, int) and isinstance(spills, int)
                and isinstance(share, int | float) and max(registers, shared, spills) < 1 << 53):  # exact in JSON
            raise ValueError(f"not the resources of a kernel: {content!r:.120}")
        return cls(registers, shared, spills, float(share))
