"""Tests of the operands that backends keep in the form in which kernels read them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.launches.call import BufferArgument
from seqtune.tuner.backends.stored_operands import StoredOperands

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Twice:
    """A packing that repeats the array, and counts how often it does."""

    name: str = ""
    calls: list[int] = field(default_factory=list, compare=False)

    def pack(self, array: Floats) -> Floats:
        self.calls.append(array.size)
        return np.concatenate([array, array])


def read_only(value: float) -> Floats:
    array = np.full(4, value, np.float32)
    array.setflags(write=False)
    return array


def packed(name: str = "", dtype: str = "fp32") -> BufferArgument:
    return BufferArgument("weights", dtype, Twice(name))


def test_a_read_only_operand_is_packed_once_for_each_form() -> None:
    operands, array, other = StoredOperands(), read_only(1), read_only(2)
    first = operands.get(array, packed())
    assert first.tolist() == [1] * 8
    assert operands.get(array, packed()) is first
    assert operands.get(array, packed("another")) is not first
    assert operands.get(array, packed(dtype="fp16")).dtype == np.float16
    assert operands.get(other, packed())[0] == 2


def test_an_operand_that_may_change_is_never_kept() -> None:
    operands, array = StoredOperands(), np.ones(4, np.float32)
    assert operands.get(array, packed())[0] == 1
    array[0] = 3
    assert operands.get(array, packed())[0] == 3


def test_bf16_is_stored_as_the_upper_halves_of_fp32() -> None:
    assert StoredOperands().get(read_only(1), BufferArgument("x", "bf16")).tolist() == [0x3F80] * 4


def test_the_operands_unused_for_longest_are_dropped() -> None:
    operands, arrays = StoredOperands(most_bytes=120), [read_only(value) for value in range(3)]
    kept = [operands.get(array, packed()) for array in arrays]  # 48 bytes each
    assert operands.get(arrays[2], packed()) is kept[2]
    assert operands.get(arrays[0], packed()) is not kept[0]
