"""Sensitivity: how far each expected element moves if the inputs move by a known share.

An element is a sum of terms that nobody sees. Each input x becomes x (1 + step s) with a random sign s, and then
x (1 - step s). A sum of products a b moves by about step times the root of the sum of (a b)**2, even where the terms
cancel and the sum is 0: that is its size before cancellation [Kenney and Laub, "Small-sample statistical condition
estimates for general matrix functions", SIAM J. Sci. Comput. 15, 1994; Parker, "Monte Carlo Arithmetic", 1997]. Whole
numbers stay as they are: indexes, counts, masks, -1e9. The two moves are opposite where the element depends smoothly on
the inputs; where they are not, an input crossed a threshold, or the element is nothing but rounding. Some moves are
opposite by chance: where most of an output's large moves are not opposite, none of them counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.element_types import element_type
from seqtune.kernels.launches.contents import copied_input
from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.operations.tensor import Tensors

Arrays = Mapping[str, NDArray[Any]]

STEP = 2.0**-10  # far above the rounding of float32, and small enough for second-order terms not to matter
COARSE_STEP = 2.0**-7  # the same for numbers of 16 bits, which round to 2**-11
OPPOSITE = 1 / 16  # two moves are opposite if their sum is at most this share of their difference
DROWNED = 0.125  # an element whose moves are larger than this share of it is drowned: its terms are far larger


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The moves of one expected output, each array of its shape."""

    sizes: NDArray[np.float64]  # the size of the sum by its moves; 0 where they are not opposite
    constant: NDArray[np.bool_]  # did not move at all: a constant of the program, or the border of a range
    opposite: NDArray[np.bool_]  # the moves tell the size
    drowned: NDArray[np.bool_]  # moved by about as much as it is, so that it has no digit of its own

    @classmethod
    def of(cls, expected: NDArray[Any], up: NDArray[Any], down: NDArray[Any], step: float) -> Sensitivity:
        """The sensitivity from the results with the inputs moved up and down."""
        middle = expected.astype(np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            first, second = up.astype(np.float64) - middle, down.astype(np.float64) - middle
            apart, together = np.abs(first - second), np.abs(first + second)
            opposite = (together <= OPPOSITE * apart) & np.isfinite(apart)
            moves = (np.abs(first) + np.abs(second)) / 2
            drowned = (moves > 0) & (moves >= DROWNED * np.abs(middle))
        if 2 * np.count_nonzero(drowned & opposite) < np.count_nonzero(drowned):
            opposite &= ~drowned
        return cls(np.where(opposite, apart / (2 * step), 0.0), (first == 0) & (second == 0), opposite,
                   drowned)


def step_for(tensors: Tensors) -> float:
    """The step that every type of the problem's floats can tell from rounding."""
    kinds = [element_type(tensor.dtype) for tensor in (*tensors.inputs.values(), *tensors.outputs.values())]
    return COARSE_STEP if any(kind.is_float and kind.size < 4 for kind in kinds) else STEP


def moved(arrays: Operands, tensors: Tensors, step: float) -> dict[str, NDArray[Any]] | None:
    """The arrays with every float of the inputs moved by the step, read-only; None if there is nothing to move.

    The signs are the same for a step and its negative. Outputs that start as a copy of an input follow it.
    """
    generator = np.random.default_rng(0)
    changed = {name: _moved(arrays[name], step, generator) for name in tensors.inputs if _movable(arrays[name]).any()}
    if not changed:
        return None
    for name, tensor in tensors.outputs.items():
        if (source := copied_input(tensor.values)) in changed and source is not None:
            changed[name] = changed[source].reshape(tensor.shape)
    for array in changed.values():
        array.setflags(write=False)
    return {**arrays, **changed}


def _movable(array: NDArray[Any]) -> NDArray[np.bool_]:
    """The finite elements that are no whole numbers."""
    if array.dtype.kind != "f":
        return np.zeros(array.shape, np.bool_)
    return np.asarray(np.isfinite(array) & (array != np.trunc(array)), np.bool_)


def _moved(array: NDArray[Any], step: float, generator: np.random.Generator) -> NDArray[Any]:
    signs = 2 * generator.integers(0, 2, array.shape, np.int8) - 1
    return np.where(_movable(array), array * (1 + step * signs), array).astype(array.dtype)


def input_size(arrays: Operands, tensors: Tensors) -> float:
    """The typical size of the inputs' floats, of those that can move if there are any; 1 where all are 0 or whole."""
    sizes = [float(np.median(np.abs(chosen.astype(np.float64)))) for name in tensors.inputs
             if (chosen := arrays[name][_movable(arrays[name])]).size]
    return max(sizes, default=1.0)
