"""Code maps: maps of numeric codes with no more rows than C needs.

Some numbers of a code follow from others: small moduli tell whole numbers apart less than their numbers in the code
can. The rows of those are added to the rows of the others. Of the bumps at the ends of the scale, a map has those that
the fact's values reach.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..sequence.numeric_codes import CODE_SIZE, MODULI, OCTAVES, codes
from ..translator.rows import Floats

_REACH = 9.5  # octaves from which a bump is below 2e-10
_WHOLE, _FIRST_BUMP = 1, 5  # indices in a code
_DIVISIBLE = CODE_SIZE - 5 * len(MODULI)
_REMAINDER, _SINE, _COSINE = (_DIVISIBLE + number * len(MODULI) for number in (1, 2, 3))
_SMALL = [MODULI.index(modulus) for modulus in (2, 3, 4, 6)]  # they divide 12
# The sine of the first one is always 0. With those for 3, 4 and 6 and the cosines, all functions of the remainders of
# 2, 3, 4 and 6 can be written: they repeat after 12 numbers.
_FOLLOWING = [*(_DIVISIBLE + index for index in _SMALL), *(_REMAINDER + index for index in _SMALL), _SINE]
_BASIS = [_WHOLE, *(_SINE + index for index in _SMALL[1:]), *(_COSINE + index for index in _SMALL)]
_LOW = [_FIRST_BUMP + index for index, octave in enumerate(OCTAVES) if octave < -_REACH]  # no whole number reaches them
_HIGH = [_FIRST_BUMP + index for index, octave in enumerate(OCTAVES) if octave > _REACH]
ORDER = [index for index in range(CODE_SIZE) if index not in {*_FOLLOWING, *_LOW, *_HIGH}] + _HIGH + _LOW
"""The indices in a code of the numbers that C multiplies: the one for unknown values first, bumps last."""


def folded(maps: Floats) -> Floats:
    """The maps (fact, number in ORDER, width) that equal maps (fact, code, width) for the codes of all values."""
    repeated: NDArray[np.float64] = codes(range(12)).astype(np.float64)
    weights = np.linalg.lstsq(repeated[:, _BASIS], repeated[:, _FOLLOWING], rcond=None)[0]  # (basis, following)
    whole = maps.astype(np.float64)
    whole[:, _BASIS] += np.einsum("bn,fnw->fbw", weights, whole[:, _FOLLOWING])
    return whole[:, ORDER].astype(np.float32)


def rows_of_numbers(bound: float) -> int:
    """The number of rows, from the beginning, that whole numbers of at most this magnitude need."""
    highest = math.log2(max(bound, 1.0)) + _REACH
    return len(ORDER) - len(_LOW) - sum(bool(OCTAVES[index - _FIRST_BUMP] > highest) for index in _HIGH)
