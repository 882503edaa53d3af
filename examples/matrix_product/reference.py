"""The reference of the matrix product, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def product(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    """The product of two matrices, (m, n)."""
    return a.astype(np.float64) @ b.astype(np.float64)
