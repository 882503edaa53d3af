"""Damage to the arrays of a checkpoint's file, which readers must refuse."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[np.float32]]


def first_number(name: str, value: float) -> Callable[[Arrays], None]:
    """The damage that replaces the first number of an array."""
    def damage(arrays: Arrays) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name].flat[0] = value
    return damage


def replaced(name: str, change: Callable[[NDArray[np.float32]], NDArray[np.float32]]) -> Callable[[Arrays], None]:
    """The damage that replaces a whole array."""
    def damage(arrays: Arrays) -> None:
        arrays[name] = change(arrays[name])
    return damage
