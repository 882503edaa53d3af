"""Builds: the times of configurations that were compared in several builds, as arrays (build, configuration)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def levelled(builds: Times) -> Times:
    """Remove the speed of the machine from builds: it may have been slower during one of them.

    Each build is divided by the median, over the configurations, of its ratio to the configuration's median time. NaN
    (a missing time) and infinity (a failure) stay.
    """
    finite = np.where(np.isfinite(builds), builds, np.nan)
    known = ~np.isnan(finite).all(axis=0)
    if not known.any():
        return builds
    ratios = finite[:, known] / np.nanmedian(finite[:, known], axis=0)
    measured = ~np.isnan(ratios).all(axis=1)
    factors = np.ones(len(builds))
    factors[measured] = np.nanmedian(ratios[measured], axis=1)
    return np.asarray(builds / factors[:, None])
