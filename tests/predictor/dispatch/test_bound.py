"""Tests of bounds: known limits, and that they hold on resampled data whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seqtune.predictor.dispatch.bound import Bound, Bounds, Losses, least_share, mean_interval

RESAMPLINGS = 200


@pytest.mark.parametrize(("within", "count", "share"), [
    (22, 22, 0.901), (58, 60, 0.914), (97, 100, 0.934), (145, 150, 0.939), (0, 10, 0.0), (1, 1, 0.1)])
def test_the_least_share_is_that_of_clopper_and_pearson(within: int, count: int, share: float) -> None:
    assert least_share(within, count) == pytest.approx(share, abs=6e-4)


def planted(generator: np.random.Generator, count: int) -> np.ndarray:
    """Losses as rules have them: two thirds near 0, others up to a quarter, and a few much slower."""
    kind = generator.random(count)
    return np.where(kind < 0.65, generator.exponential(0.01, count), np.where(
        kind < 0.97, generator.exponential(0.08, count), generator.uniform(0.2, 0.6, count)))


@pytest.mark.parametrize("count", [60, 150])
def test_bounds_hold_in_nine_of_ten_resamplings(count: int) -> None:
    truth = planted(np.random.default_rng(1), 400_000)
    share, mean = float((truth <= math.log(1.1)).mean()), math.exp(-float(truth.mean()))
    bounds = [Bound.of(planted(np.random.default_rng([2, count, seed]), count)) for seed in range(RESAMPLINGS)]
    assert sum(bound.share <= share for bound in bounds) >= 0.9 * RESAMPLINGS
    assert "at most 10 % slower than their best" in bounds[0].text()
    assert sum(bound.low <= mean <= bound.high for bound in bounds) >= 0.9 * RESAMPLINGS
    assert np.median([bound.high - bound.low for bound in bounds]) < (0.05 if count == 60 else 0.03)


def test_equal_losses_promise_no_more_than_was_seen() -> None:
    low, high = mean_interval(np.zeros(22))
    assert low == 0.0
    assert high == pytest.approx(0.1 * math.log(20), rel=0.02), "a tenth of the shapes may be slow and unseen"
    low, high = mean_interval(np.full(8, 0.1))
    assert low < 0.1 < 0.5 < high


def test_the_part_where_a_rule_is_sure_has_its_own_bound() -> None:
    losses = [Losses(0.0, 0.0, True), Losses(0.5, 0.1, False), Losses(0.02, 0.02, True), Losses(0.4, 0.0, False)] * 4
    bounds = Bounds.of(losses)
    assert bounds is not None
    assert bounds.sure is not None
    assert bounds.raced is not None
    assert (bounds.rule.within, bounds.raced.within, bounds.sure.within, bounds.sure.shapes) == (8, 12, 8, 8)
    hardly = Bounds.of([each._replace(raced=None, sure=number < 7) for number, each in enumerate(losses)])
    assert hardly is not None
    assert hardly.raced is hardly.sure is None, "there was no race, and seven shapes say too little"
    assert Bounds.of(losses[:7]) is None
