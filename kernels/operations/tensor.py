"""Tensor: one input or output of a problem with its shape, element type, contents and tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

# A way to draw numbers or a copy of an input (see `seqtune.kernels.launches.contents`), a number, a .npy file; None:
# not initialised.
Contents: TypeAlias = str | float | Path | None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An array that kernels read or write."""

    shape: tuple[int, ...]
    dtype: str = "fp32"  # a key of `seqtune.kernels.devices.element_types.ELEMENT_TYPES`
    values: Contents = "normal"  # contents before the run; an output without any (None) is poisoned
    tolerance: float | None = None  # outputs: largest allowed error relative to an element's size (see
    #                                `seqtune.tuner.measuring.error_rule`); None: by type
    compares_sum: bool = False  # outputs: only the sums of all elements are compared
    restore: bool | None = None  # whether its contents are restored before each launch; None: those of an output are

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Tensors:
    """The inputs and outputs of a problem by name."""

    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]

    def names(self) -> tuple[str, ...]:
        """The names of all tensors, inputs first."""
        return (*self.inputs, *self.outputs)

    def restorable(self) -> tuple[str, ...]:
        """The names of the tensors that are restored before each launch that finds them changed by an earlier one."""
        inputs = (name for name, tensor in self.inputs.items() if tensor.restore)
        return (*inputs, *(name for name, tensor in self.outputs.items()
                           if tensor.values is not None and tensor.restore is not False))
