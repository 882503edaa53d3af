"""Planted errors: what is changed, and the table of shares by the rule before and by today's."""

from __future__ import annotations

import numpy as np

from benchmarks.kernels.planted_errors import ERRORS, FORMS, wrong_before


def test_errors_are_planted_where_nothing_is_masked() -> None:
    y = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    for form in FORMS.values():
        right = form(y)
        own = np.flatnonzero((right != 0) & (np.abs(right) < 1e4))
        for plant in ERRORS.values():
            output = right.copy()
            plant(output, own, np.random.default_rng(0))
            assert set(np.flatnonzero(output != right)) <= set(own)
            assert (output != right).any()


def test_the_rule_before_is_relative_to_the_largest_element() -> None:
    expected = np.array([-1e9, 0.1])
    assert not wrong_before(np.array([-1e9, 80.0], np.float32), expected, 1e-4)
    assert wrong_before(np.array([80.0], np.float32), expected[1:], 1e-4)
    assert wrong_before(np.array([np.nan], np.float32), expected[1:], 1e-4)
