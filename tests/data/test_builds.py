"""Builds on one level."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.data.builds import levelled


def test_a_build_in_a_slow_minute_is_as_good_as_another() -> None:
    times = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    builds = np.stack([times, 1.9 * times, times])
    builds[1, 2] *= 0.9  # luck of one build
    level = levelled(builds)
    assert level[[0, 2]] == pytest.approx(np.stack([times, times]))
    assert level[1] == pytest.approx([1.0, 2.0, 2.7, 4.0, 5.0])


def test_missing_and_failed_times_stay() -> None:
    level = levelled(np.array([[1.0, np.inf, np.nan], [3.0, 6.0, np.nan]]))
    assert np.isinf(level[0, 1])
    assert np.isnan(level[:, 2]).all()
    assert level[0, 0] == pytest.approx(2.0)
    nothing = np.full((2, 3), np.nan)
    assert np.isnan(levelled(nothing)).all()
