"""Numeric codes: a number as a vector that shows its magnitude (smooth) and its divisibility (exact).

A tile of 14 suits a row of 56 and a tile of 16 does not, which a magnitude alone does not show. The same code describes
problem features, device facts and values of tuning parameters, so a value that training did not contain has a meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.operations.feature import Value

MODULI = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64, 96)  # frequent sizes of tiles and vectors
SMALL = 16  # each of the numbers 1..SMALL has its own position in the code
OCTAVES = np.arange(-14.0, 44.0, 2.0)  # centres of bumps over log2: 1e-4 (a tolerance) to 2**42 (work, in flop)

_FLAGS = 4  # unknown, whole number, zero, negative
_PER_MODULUS = 5  # divisible, remainder, sine and cosine of it, share kept when rounded up to a multiple
CODE_SIZE = _FLAGS + 1 + len(OCTAVES) + SMALL + _PER_MODULUS * len(MODULI)

Codes = NDArray[np.float32]  # (number, CODE_SIZE)


def codes(values: Sequence[Value]) -> Codes:
    """The code of each value, (value, CODE_SIZE).

    `None` sets only the flag for unknown values. A word gives zeros, since its embedding has its meaning.
    """
    rows = np.zeros((len(values), CODE_SIZE), dtype=np.float32)
    unknown = [index for index, value in enumerate(values) if value is None]
    rows[unknown, 0] = 1.0
    numbers = [index for index, value in enumerate(values) if isinstance(value, int | float)]
    if numbers:
        rows[numbers] = _codes(np.array([float(values[index]) for index in numbers]))  # type: ignore[arg-type]
    return rows


def column_codes(numbers: NDArray[np.float64]) -> Codes:
    """The codes (..., CODE_SIZE) of numbers (...), NaN for unknown ones; equal numbers are coded once."""
    distinct, index = np.unique(numbers, return_inverse=True)  # NaNs are equal here, and come last
    rows = _codes(distinct).astype(np.float32)
    if len(distinct) and np.isnan(distinct[-1]):
        rows[-1] = 0.0
        rows[-1, 0] = 1.0
    return rows[index.reshape(numbers.shape)]


def _codes(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    numbers = np.nan_to_num(numbers, posinf=2.0**60, neginf=-(2.0**60))
    size = np.abs(numbers)
    octave = np.log2(np.maximum(size, 2.0**-40))
    whole = (numbers == np.floor(numbers)) & (size < 2.0**53)
    flags = np.stack([np.zeros_like(size), whole, size == 0, numbers < 0], axis=1)
    present = (size > 0)[:, None]
    magnitude = np.where(present, octave[:, None] / 16, 0.0)
    bumps = np.where(present, np.exp(-((octave[:, None] - OCTAVES) ** 2) / 4), 0.0)
    small = size[:, None] == np.arange(1, SMALL + 1)
    moduli = np.array(MODULI, dtype=np.float64)
    remainder = np.mod(size[:, None], moduli)
    turn = 2 * np.pi * remainder / moduli
    rounded = np.ceil(size[:, None] / moduli) * moduli
    kept = size[:, None] / np.maximum(rounded, 1.0)
    pattern = np.concatenate([remainder == 0, remainder / moduli, np.sin(turn), np.cos(turn), kept], axis=1)
    return np.concatenate([flags, magnitude, bumps, small, np.where(whole[:, None], pattern, 0.0)], axis=1)
