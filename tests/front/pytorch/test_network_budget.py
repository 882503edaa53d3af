"""The budget of a network's verification: its clock, its parts, and its division among the layers."""

from __future__ import annotations

import pytest

from seqtune.pytorch.network_budget import NetworkBudget, divide, rounds_within


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The seconds now."""
        return self.now


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


def test_only_the_time_while_it_runs_is_used() -> None:
    clock = Clock()
    budget = NetworkBudget(10.0, clock=clock)
    clock.now = 5.0
    assert budget.left() == 10.0
    with budget.running():
        clock.now = 7.0
        assert (budget.used(), budget.left()) == (2.0, 8.0)
    clock.now = 50.0
    assert budget.left() == 8.0

    def interrupted() -> None:
        with budget.running():
            clock.now = 61.0
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert budget.left() == -3.0


def test_parts_share_by_weight_what_the_earlier_ones_left() -> None:
    clock = Clock()
    whole = NetworkBudget(60.0, weight=6, clock=clock)
    first = whole.part(3)
    assert first.seconds == 30.0
    with first.running():
        clock.now += 20.0  # 10 of its seconds are left for the others
    second = whole.part(1)
    assert second.seconds == pytest.approx(40.0 / 3)
    with second.running():
        clock.now += 30.0
    assert whole.left() == 10.0
    assert whole.part(2).seconds == 10.0
    assert whole.part(5).seconds == 10.0, "weights that are shared by parts give no part more than there is"


@pytest.mark.parametrize(("seconds", "round_seconds", "rounds"), [
    (10.0, 1.0, 10), (100.0, 1.0, 25), (1.0, 1.0, 3), (-1.0, 1.0, 3), (float("inf"), 1.0, 25), (1.0, 0.0, 25)])
def test_rounds_fit_into_the_seconds(seconds: float, round_seconds: float, rounds: int) -> None:
    assert rounds_within(seconds, round_seconds, 3, 25) == rounds
