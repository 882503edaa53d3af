"""The reliability of confidences: the regret of the most certain cases, and the errors of expected shares."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.prediction.confidence import Reliability, table
from seqtune.predictor.candidate import Confidence


def sure(shares: np.ndarray) -> list[Confidence]:
    return [Confidence(share, share - 0.05, share + 0.05) for share in shares.tolist()]


def test_a_confidence_that_knows_the_shares_ranks_perfectly_and_is_not_off() -> None:
    shares = 1 - np.random.default_rng(0).exponential(0.05, 500)
    found = Reliability.of(sure(shares), shares.tolist())
    assert found.ratio == found.perfect < 0.7
    assert found.certain == pytest.approx(found.ratio * found.regret)
    assert (found.error, found.bin_error, found.inside) == pytest.approx((0, 0, 1))
    assert found.low <= found.ratio <= found.high
    assert "| ratio |" in table(found)


def test_a_confidence_of_chance_does_not_rank_and_may_be_off() -> None:
    generator = np.random.default_rng(0)
    shares = 1 - generator.exponential(0.05, 500)
    found = Reliability.of(sure(generator.permutation(shares) - 0.1), shares.tolist())
    assert found.ratio == pytest.approx(1, abs=0.1)
    assert found.error == pytest.approx(-0.1)
    assert found.bin_error == pytest.approx(0.1, abs=0.02)
    assert Reliability.of(sure(np.ones(5)), [1.0] * 5).ratio == 1
