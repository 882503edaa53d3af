"""Typical sizes: how large the sum is that each element of an expected output is, so that rounding can be judged.

Rounding in a sum of n terms t is at most gamma_n times the sum of |t| [Higham, "Accuracy and Stability of Numerical
Algorithms", section 3.1], and for roundings that are independent about sqrt(n) u times it [Higham and Mary, "A new
approach to probabilistic rounding error analysis", SIAM J. Sci. Comput. 41, 2019]. A sum may be far less than its
terms. Its size is the largest of three: the element itself, how far it moves with the inputs (see `Sensitivity`), and
what is typical of the elements of its group.

Groups keep a mask of -1e9 from widening the tolerance of scores of 0.1: sizes that are GAP binary orders apart are
different groups. A group's typical size is the median of its sizes, scaled to the standard deviation of normal
numbers [Rousseeuw and Croux, "Alternatives to the Median Absolute Deviation", JASA 88, 1993], on which neither zeros
nor outliers count. Constants are in no group; zeros and elements that are drowned in rounding take at least the least
group's size, or that of a sum of the inputs where there is no group.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .sensitivity import Sensitivity

Sizes = NDArray[np.float64]
Mask = NDArray[np.bool_]

GAP = 5  # empty binary orders between two groups
MOST_STRAY = 4  # members of a lowest group that are small by luck alone, among LEAST_OTHERS times as many elements
LEAST_OTHERS = 64
ALIKE = 2.0**-10  # a group whose sizes differ by less is a constant, if no sensitivity is known
TO_DEVIATION = 1.4826  # of the median of |x| to the standard deviation of normal numbers
NOISE = 8.0  # times n u: no rounding of n terms is larger
UNIT_OF_DOUBLES = 2.0**-53  # of float64, in which a reference usually adds
PLAIN = 0.25  # least typical size, relative to a sum of the inputs, of sums that can hardly have cancelled


def is_plain(expected: NDArray[Any], size: float) -> bool:
    """Whether the elements alone tell their sizes: one group of finite numbers, without zeros, that are not small.

    `size` is that of a sum of the inputs' elements with random signs.
    """
    sizes = _magnitudes(expected)
    if not (sizes > 0).all():
        return False
    groups = _groups(sizes.ravel())
    return not groups.any() and TO_DEVIATION * float(np.median(sizes)) >= PLAIN * size


class _Elements(NamedTuple):
    """The elements of an expected output before their groups are known, each array of its shape."""

    sizes: Sizes
    constant: Mask  # not zero, and no sum of the inputs
    known: Mask  # the moves with the inputs tell the size
    drowned: Mask  # without a digit of its own: the size is unknown, unless the moves tell it

    @classmethod
    def of(cls, own: Sizes, noise: float) -> _Elements:
        """The elements by their own sizes, where rounding is at most `noise`."""
        nothing, drowned = np.zeros(own.shape, np.bool_), (own > 0) & (own <= noise)
        return cls(own, nothing, nothing, drowned)

    @classmethod
    def moved(cls, own: Sizes, noise: float, sensitivity: Sensitivity) -> _Elements:
        """The elements by their own sizes and their moves, where rounding is at most `noise`."""
        sizes, known, drowned = np.maximum(own, sensitivity.sizes), sensitivity.opposite, sensitivity.drowned
        constant, small = sensitivity.constant & (own > 0), (sizes > 0) & (sizes <= noise)
        if 2 * np.count_nonzero(small & (constant | (known & ~drowned))) < np.count_nonzero(small):  # told by chance
            drowned, constant, known = drowned | small, constant & ~small, known & ~small
        return cls(sizes, constant, known, drowned)


def typical_sizes(expected: NDArray[Any], unit: float, inputs: float, terms: float,
                  sensitivity: Sensitivity | None) -> Sizes:
    """The size of each element, of the expected shape. Infinities and NaN have 0.

    `unit` is the rounding of the type in which kernels add, `inputs` the typical size of the inputs, `terms` how many
    of their elements there are for each element of output, at least 1.
    """
    own = _magnitudes(expected)
    nonzero, rounding = own > 0, NOISE * terms * inputs  # the largest, in units
    if sensitivity is not None:
        elements = _Elements.moved(own, rounding * unit, sensitivity)
    elif (own <= rounding * unit).all() and (own > rounding * UNIT_OF_DOUBLES).any():  # all are small by intention
        elements = _Elements.of(own, 0.0)
    else:
        elements = _Elements.of(own, rounding * unit)
    sizes, constant, known, drowned = elements
    sums = (sizes > 0) & ~constant & (known | ~drowned)
    typical, least = _by_group(sizes[sums], drowned[sums], constants=sensitivity is None)
    few = 2 * np.count_nonzero(sums & ~drowned) < np.count_nonzero(nonzero & ~constant)  # their groups are by chance
    floor = inputs * math.sqrt(terms) if least is None or few else least
    result = sizes.copy()
    result[sums] = np.maximum(sizes[sums], typical)
    lost = np.isfinite(expected) & ((sizes == 0) | drowned)
    result[lost] = np.maximum(result[lost], floor)
    return result


def _magnitudes(expected: NDArray[Any]) -> Sizes:
    return np.where(np.isfinite(expected), np.abs(expected.astype(np.float64)), 0.0)


def _by_group(sizes: Sizes, drowned: Mask, constants: bool) -> tuple[Sizes, float | None]:
    """The typical size of each element's group, and the least one of a group that is not drowned (None: there is none).

    With `constants`, a group of nearly equal sizes counts as a constant: its members keep their own sizes.
    """
    if not sizes.size:
        return sizes, None
    groups, typical = _groups(sizes), np.empty_like(sizes)
    least = math.inf
    for group in range(int(groups.max()) + 1):
        members = groups == group
        chosen = sizes[members]
        size = TO_DEVIATION * float(np.median(chosen))
        if constants and chosen.size > 1 and float(chosen.max()) <= (1 + ALIKE) * float(chosen.min()):
            size = 0.0
        elif 2 * np.count_nonzero(drowned[members]) < chosen.size:
            least = min(least, size)
        typical[members] = size
    return typical, least if math.isfinite(least) else None


def _groups(sizes: Sizes) -> NDArray[np.int16]:
    """The number of each size's group, the least sizes first. `sizes` are positive, in one axis."""
    orders = np.frexp(sizes)[1]
    orders -= orders.min()
    counts = np.bincount(orders)
    present = np.flatnonzero(counts)
    starts = np.concatenate([[0], np.cumsum(np.diff(present) > GAP)])  # group by binary order that is present
    lowest = int(counts[present[starts == 0]].sum())
    if starts[-1] and lowest <= MOST_STRAY and sizes.size >= LEAST_OTHERS * lowest:
        starts = np.maximum(starts - 1, 0)
    groups = np.zeros(counts.shape, np.int16)  # group by binary order; floats have fewer than 2200
    groups[present] = starts
    return groups[orders]
