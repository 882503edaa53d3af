"""Tests of the operands that the cuda backend keeps in the form in which kernels read them."""

from __future__ import annotations

import numpy as np

from seqtune.tuner.backends.stored_operands import StoredOperands


def read_only(value: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    array = np.full(4, value, np.float32)
    array.setflags(write=False)
    return array


def test_a_read_only_operand_is_stored_once_for_each_form() -> None:
    operands, array, other = StoredOperands(), read_only(1), read_only(2)
    first = operands.get(array, "a", array.copy)
    assert operands.get(array, "a", array.copy) is first
    assert operands.get(array, "b", array.copy) is not first
    assert operands.get(other, "a", other.copy)[0] == 2


def test_an_operand_that_may_change_is_never_kept() -> None:
    operands, array = StoredOperands(), np.ones(4, np.float32)
    assert operands.get(array, "a", array.copy)[0] == 1
    array[0] = 3
    assert operands.get(array, "a", array.copy)[0] == 3


def test_the_operands_unused_for_longest_are_dropped() -> None:
    operands, arrays = StoredOperands(most_bytes=80), [read_only(value) for value in range(3)]
    stored = [operands.get(array, "a", array.copy) for array in arrays]
    assert operands.get(arrays[2], "a", arrays[2].copy) is stored[2]
    assert operands.get(arrays[0], "a", arrays[0].copy) is not stored[0]


def test_sizes_are_computed_once() -> None:
    operands, calls = StoredOperands(), []

    def store() -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        calls.append(1)
        return np.zeros(6, np.float32)

    assert [operands.size((2, 3), "a", store) for _ in range(3)] == [24] * 3
    assert len(calls) == 1
