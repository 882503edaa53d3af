"""The rule for which is faster, on simulated rounds whose truth is known and on recorded ones, beside simpler rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import seqtune
from seqtune.data.dataset import Dataset
from seqtune.tuner.measuring.comparison import faster_than, holm, p_value, typical
from seqtune.tuner.measuring.verification import RULE
from tests.support.measuring.noisy_rounds import NOISES, Array, Noise, rounds_of

CANDIDATES = 5
GROUPS = 4  # records of a build in the shipped data set, each the least of 3 rounds: it had 12


def by_name(seconds: Array) -> dict[int, list[float]]:
    """The samples of each name; 0 is the default."""
    return dict(enumerate(seconds.tolist()))


def claims(seconds: Array) -> bool:
    """Whether the package's rule claims that a candidate is faster than the default."""
    return bool(faster_than(0, by_name(seconds), RULE))


def claims_without_batches(seconds: Array) -> bool:
    """Whether the signed-rank test with Holm's correction alone does."""
    return bool(holm({name: p_value(seconds[0].tolist(), seconds[name].tolist(), RULE.margin)
                      for name in range(1, len(seconds))}, RULE.level))


def claims_by_least_time(seconds: Array) -> bool:
    """Whether the least times alone do."""
    least = seconds.min(axis=1)
    return bool(least.min() * (1 + RULE.margin) < least[0])


def false_wins(claim: Callable[[Array], bool], noise: Noise, runs: int) -> int:
    """The number of claims among `runs` comparisons of equal candidates."""
    generator = np.random.default_rng(3)
    return sum(claim(rounds_of(np.ones(1 + CANDIDATES), noise, generator)) for _ in range(runs))


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_equal_candidates_win_seldom_and_often_by_their_least_time(noise: Noise) -> None:
    assert false_wins(claims, noise, 60) <= 3  # at 1 %, more than three of 60 are won once in 300 such tests
    assert false_wins(claims_by_least_time, noise, 60) >= 20


def test_a_clear_lead_wins() -> None:
    generator = np.random.default_rng(3)
    led = [faster_than(0, by_name(rounds_of(np.array([1.0, 1 / 1.1, 1.0]), NOISES[0], generator)), RULE)
           for _ in range(20)]
    assert led == [[1]] * 20


def test_the_demand_on_every_batch_keeps_luck_of_builds_from_winning() -> None:
    lucky = NOISES[1]
    assert false_wins(claims_without_batches, lucky, 150) >= 3 * max(1, false_wins(claims, lucky, 150))


def test_the_typical_time_of_one_half_of_the_builds_chooses_better_for_the_other_than_the_least_time() -> None:
    """The shipped comparisons of CLBlast's configurations on PoCL: 20 configurations for each product."""
    rows = Dataset.read(Path(seqtune.__file__).parent / "data" / "shipped" / "libraries" / "clblast.parquet").rows
    rows = rows[(rows["run"] == "final") & (rows["status"] == "correct")]
    rules: Mapping[str, Callable[[Array], Array]] = {
        "typical": lambda seconds: np.array(list(typical(by_name(seconds)).values())),
        "least": lambda seconds: np.asarray(seconds.min(axis=1))}
    shares: dict[str, list[float]] = {name: [] for name in rules}
    for _, product in rows.groupby(["problem", "device"], observed=True, sort=True):
        taken = [group["seconds"].to_numpy(float) for _, group in product.groupby("configuration", observed=True)]
        longest = max(map(len, taken))
        table = np.array([seconds for seconds in taken if len(seconds) == longest])
        builds = np.arange(longest) // GROUPS % 2
        for chosen in (0, 1):
            seconds = rules["typical"](table[:, builds != chosen])
            for name, rule in rules.items():
                shares[name].append(seconds.min() / seconds[int(np.argmin(rule(table[:, builds == chosen])))])
    assert np.mean(shares["typical"]) > np.mean(shares["least"])
