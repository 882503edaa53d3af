"""Panels: columns in groups of one width, the last of which overlaps the one before where the width does not divide."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def overlapping(count: int, width: int) -> NDArray[np.int64]:
    """The indices of `count` columns in panels of `width`, at most `count`: an array (panel, column of the panel)."""
    firsts = np.minimum(np.arange(-(-count // width)) * width, count - width)
    columns: NDArray[np.int64] = firsts[:, None] + np.arange(width)
    return columns
