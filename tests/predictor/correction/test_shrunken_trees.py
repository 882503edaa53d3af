"""ShrunkenTrees: a correction counts only if it does not make the first choices of other problems slower."""

from __future__ import annotations

import numpy as np

from seqtune.predictor.correction.observations import Observations
from seqtune.predictor.correction.shrunken_trees import ShrunkenTrees

PROBLEMS, EACH = 10, 16


def observations(seed: int) -> Observations:
    """Random times that a model expects with a systematic error and a random one, (row,)."""
    generator = np.random.default_rng(seed)
    features = generator.integers(0, 4, (PROBLEMS * EACH, 3)).astype(np.float32)
    observed = np.abs(generator.normal(0, 0.5, (PROBLEMS, EACH)))
    times = (observed - observed.min(axis=1, keepdims=True)).ravel()
    expected = times + 0.15 * features[:, 0] + generator.normal(0, 0.1, len(times))
    return Observations({"k": features}, {"k": np.arange(len(times))}, np.repeat(np.arange(PROBLEMS), EACH),
                        expected, times)


def test_a_correction_that_leaves_less_error_but_slower_first_choices_is_none() -> None:
    fitted = [ShrunkenTrees.fit(observations(seed)) for seed in range(60)]
    assert all(fit.after >= fit.before for fit in fitted)
    assert {bool(fit.forests) for fit in fitted} == {True, False}
    assert all(bool(fit.forests) == (fit.factor > 0) for fit in fitted)
