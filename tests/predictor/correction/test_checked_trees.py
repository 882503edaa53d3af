"""CheckedTrees: a correction counts only where it reduces the errors of other problems."""

from __future__ import annotations

import numpy as np

from seqtune.predictor.correction.checked_trees import CheckedTrees
from seqtune.predictor.correction.observations import Observations

EACH = 16


def observations(seed: int, error: float, problems: int = 12) -> Observations:
    """Random times that a model expects with an error of all problems, by the first feature, and a random one."""
    generator = np.random.default_rng(seed)
    features = generator.integers(0, 4, (problems * EACH, 3)).astype(np.float32)
    observed = np.abs(generator.normal(0, 0.5, (problems, EACH)))
    times = (observed - observed.min(axis=1, keepdims=True)).ravel()
    expected = times + error * features[:, 0] + generator.normal(0, 0.1, len(times))
    return Observations({"k": features}, {"k": np.arange(len(times))}, np.repeat(np.arange(problems), EACH),
                        expected, times)


def test_an_error_that_problems_share_is_halved_for_problems_that_are_new() -> None:
    for seed in range(5):
        fit = CheckedTrees.fit(observations(seed, 0.15))
        assert fit.error_after < fit.error_before
        changes = fit.forests["k"].margins(np.array([[0, 1, 1], [3, 1, 1]], np.float32))[:, 0]
        assert 0.1 < changes[0] - changes[1] < 0.3  # the whole error is 0.45


def test_errors_that_problems_do_not_share_change_nothing() -> None:
    fits = [CheckedTrees.fit(observations(seed, 0.0)) for seed in range(30)]
    assert sum(not fit.forests for fit in fits) >= 24  # one standard error is exceeded by chance in a sixth
    assert all(fit.error_after == fit.error_before for fit in fits if not fit.forests)
