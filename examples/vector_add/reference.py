"""The reference of the vector addition, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def add(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """The sum of two vectors, (n,)."""
    return a.astype(np.float64) + b
