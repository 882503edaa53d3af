"""The budget of a network's verification: what its end ends, and its division among the layers."""

from __future__ import annotations

import pytest

from seqtune.networks.verification.budget import divide, guarded, rounds_within
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime


@pytest.mark.parametrize(("gains", "seconds", "shares"), [
    ([1.0, 1.0], 8.0, [4.0, 4.0]),
    ([3.0, 1.0], 12.0, [9.0, 3.0]),  # in proportion to the gain
    ([1.0, 3.0], 12.0, [3.0, 9.0]),  # in the order given
    ([9.0, 1.0], 10.0, [8.0, 2.0]),  # nobody gets less than the least
    ([1.0, 100.0], 15.0, [5.0, 10.0]),  # nor more than the most: the others get it
    ([1.0, 2.0], 100.0, [10.0, 10.0]),
    ([3.0, 1.0, 2.0], 5.0, [3.0, 0.0, 2.0]),  # too little for three: the smallest gain gets none
    ([2.0, 1.0], 3.9, [3.9, 0.0]),
    ([1.0], 1.9, [0.0]), ([1.0], -5.0, [0.0]), ([], 10.0, []),
    ([0.0, 1.0, 0.0], 9.0, [0.0, 9.0, 0.0]), ([0.0], 9.0, [0.0])])
def test_the_seconds_follow_the_gains(gains: list[float], seconds: float, shares: list[float]) -> None:
    assert divide(gains, seconds, least=2.0, most=10.0) == pytest.approx(shares)


def test_no_more_is_given_than_there_is() -> None:
    gains = [1 / (index + 1) for index in range(40)]
    for seconds in (1.0, 7.0, 30.0, 59.9, 500.0):
        shares = divide(gains, seconds, least=2.0, most=10.0)
        assert sum(shares) <= seconds + 1e-9
        assert all(share == 0 or 2.0 <= share <= 10.0 for share in shares)
        assert shares == sorted(shares, reverse=True)


def test_a_least_time_that_is_the_most_gives_all_the_same() -> None:
    assert divide([5.0, 1.0, 3.0], 1.0, least=0.4, most=0.4) == pytest.approx([0.4, 0.0, 0.4])


def test_a_guarded_call_needs_more_than_the_reserve() -> None:
    now = [0.0]
    calls: list[float] = []
    run = guarded(lambda: calls.append(now[0]), Deadline(10.0, lambda: now[0]), 2.0)
    run()
    now[0] = 7.9
    run()
    now[0] = 8.0
    with pytest.raises(OutOfTime, match="8 s are over"):
        run()
    assert calls == [0.0, 7.9]


@pytest.mark.parametrize(("seconds", "round_seconds", "rounds"), [
    (10.0, 1.0, 10), (100.0, 1.0, 25), (1.0, 1.0, 3), (-1.0, 1.0, 3), (float("inf"), 1.0, 25), (1.0, 0.0, 25)])
def test_rounds_fit_into_the_seconds(seconds: float, round_seconds: float, rounds: int) -> None:
    assert rounds_within(seconds, round_seconds, 3, 25) == rounds
