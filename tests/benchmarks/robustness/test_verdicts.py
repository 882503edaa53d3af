"""The noise that rules are judged by, and the rule of the package among them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.robustness.verdicts import BATCHES, NOISES, ROUNDS, VERDICTS, Noise, recorded, rounds_of, simulated

RULE = VERDICTS["signed rank, Holm, every batch"]


def test_simulated_rounds_have_the_given_truth_and_noise() -> None:
    truth = np.array([1.0, 2.0])
    still = Noise("still", jitter=0.0, luck=0.0, disturbed=0.0)
    assert np.array_equal(rounds_of(truth, still, np.random.default_rng(0)), np.outer(truth, np.ones(BATCHES * ROUNDS)))
    lucky = rounds_of(truth, Noise("lucky", jitter=0.0, luck=0.1, disturbed=0.0), np.random.default_rng(0))
    assert np.ptp(lucky.reshape(2, BATCHES, ROUNDS), axis=2).max() == 0.0, "luck lasts a batch"
    assert len(np.unique(lucky)) == 2 * BATCHES
    slow = np.array([rounds_of(truth, Noise("slow", 0.0, 0.0, 0.0, stretch=0.3), np.random.default_rng(seed))
                     for seed in range(200)])
    assert set(np.unique(slow)) == {1.0, 2.0, 4.0}
    assert (slow[:, 0] == 2.0).mean() == pytest.approx(0.3, abs=0.1)


def test_the_packages_rule_wins_seldom_with_equal_candidates_and_often_with_a_clear_lead() -> None:
    for noise in NOISES:
        generator = np.random.default_rng(3)
        wins = [RULE(rounds_of(np.ones(6), noise, generator)) != 0 for _ in range(60)]
        assert sum(wins) <= 3, noise.name  # at 1 %, more than three of 60 are won once in 300 such tests
    generator = np.random.default_rng(3)
    led = [RULE(rounds_of(np.array([1.0, 1 / 1.1, 1.0]), NOISES[0], generator)) for _ in range(20)]
    assert led == [1] * 20


def test_the_tables_have_a_line_for_each_rule_and_statistic() -> None:
    rules, choices = simulated(runs=2, seed=0)
    assert len(rules.splitlines()) == 2 + len(NOISES) * len(VERDICTS)
    assert len(choices.splitlines()) == 2 + len(NOISES) * 4
    assert len(recorded(choosing=True).splitlines()) == 2 + 4
    assert recorded(choosing=True) != recorded(choosing=False)
