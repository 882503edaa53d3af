"""StoredOperands: operands as kernels read them, packed and in their element type, kept for the next configurations.

Packing and rounding a large matrix on the host takes a hundred times as long as a launch that reads it, and most
configurations of a problem read the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.devices.element_types import encode
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.launches.implementation import Array, Implementation
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem

Stored = NDArray[Any]
MOST_BYTES = 2 << 30  # of the host's memory, for both forms


class StoredOperands:
    """The stored forms of read-only arrays; those that were not used for longest are dropped."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._kept: OrderedDict[tuple[int, Hashable], tuple[Array, Stored]] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}

    def get(self, array: Array, form: Hashable, store: Callable[[], Stored]) -> Stored:
        """The array in a form, made by `store` unless it is kept. An array that may be written to is never kept."""
        if array.flags.writeable:
            return store()
        key = id(array), form  # the array is kept too, so no other array gets its id
        if key not in self._kept:
            stored = store()
            self._kept[key] = array, stored
            self._bytes += array.nbytes + stored.nbytes
            while self._bytes > self._most_bytes and len(self._kept) > 1:
                self._bytes -= sum(part.nbytes for part in self._kept.popitem(last=False)[1])
        self._kept.move_to_end(key)
        return self._kept[key][1]

    def size(self, shape: tuple[int, ...], form: Hashable, store: Callable[[], Stored]) -> int:
        """The bytes of an operand of this shape in a form."""
        if (shape, form) not in self._sizes:
            self._sizes[shape, form] = store().nbytes
        return self._sizes[shape, form]


@dataclass(frozen=True, slots=True)
class OperandForms:
    """The forms in which the kernel of one configuration reads its operands; `kept` has those of all configurations."""

    problem: Problem
    device: Device
    configuration: Configuration
    implementation: Implementation
    kept: StoredOperands

    def get(self, name: str, array: Array) -> Stored:
        """The operand as the kernel reads it: the constant one packed, in the problem's element type."""
        return self.kept.get(array, self._form(name), partial(self._store, name, array))

    def size(self, name: str, shape: tuple[int, ...]) -> int:
        """The bytes of an operand of this shape."""
        zeros = np.broadcast_to(np.float32(0), shape)  # takes no memory
        return self.kept.size(shape, self._form(name), partial(self._store, name, zeros))

    def _form(self, name: str) -> Hashable:
        """All that the stored form of an operand depends on, beside the array and the device."""
        dtype = self.problem.dtype
        if name != operation(self.problem.type).constant:
            return dtype
        return dtype, self.configuration.kernel, self.implementation.packing(self.problem, self.configuration)

    def _store(self, name: str, array: Array) -> Stored:
        if name == operation(self.problem.type).constant:
            array = self.implementation.pack(self.problem, self.device, self.configuration, array)
        return encode(array, self.problem.dtype)
