"""The speed ratio of the predicted and the verified network, with times that are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from torch import nn

from seqtune.networks.verification.speed_ratio import SpeedRatio, measure_ratio
from seqtune.tuner.measuring.deadline import Deadline

SLOW_ROUND = [1.0, 1.0, 5.0, 1.0, 1.0]  # the whole machine was slower in one round


@pytest.mark.parametrize(("predicted", "verified", "ratio"), [
    ([2.0] * 5, [1.0] * 5, 2.0), ([1.0] * 5, [1.0] * 5, 1.0), (SLOW_ROUND, [2 * slow for slow in SLOW_ROUND], 0.5),
    ([1.02] * 5, [1.0] * 4 + [9.0], 1.02)])
def test_the_ratio_is_that_of_typical_rounds(predicted: list[float], verified: list[float], ratio: float) -> None:
    assert SpeedRatio.of(predicted, verified).ratio == pytest.approx(ratio)


def test_the_spread_is_that_of_the_rounds() -> None:
    assert SpeedRatio.of([1.0] * 5, [1.0] * 5).spread == 0
    assert SpeedRatio.of([1.0, 1.1, 1.2, 1.3, 1.4], [1.0] * 5).spread == pytest.approx(0.2)


def test_both_compute_in_turns_with_operands_of_their_own() -> None:
    rounds: list[int] = []

    def time_calls(runs: Mapping[str, Callable[[], object]], count: int, seconds: float) -> dict[str, list[float]]:
        rounds.append(count)
        for run in runs.values():
            run()
        return {"predicted": [1.0] * count, "verified": [0.9] * count}

    class Doubled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mul_(2)

    x = torch.ones(3)
    speed = measure_ratio(Doubled(), Doubled(), [x], 0.01, Deadline(1.0, lambda: 0.0), time_calls)
    assert speed is not None
    assert speed.ratio == pytest.approx(1 / 0.9)
    assert torch.equal(x, torch.ones(3))
    assert rounds == [10], "0.4 of the second that is left, 4 runs of 10 ms in each round"


def test_a_comparison_ends_with_the_budget() -> None:
    class Ticking(nn.Module):
        now, calls = 0.0, 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            Ticking.now += 1.0
            Ticking.calls += 1
            return x

    deadline = Deadline(4.0, lambda: Ticking.now)
    assert measure_ratio(Ticking(), Ticking(), [torch.ones(1)], 0.01, deadline) is None
    assert Ticking.calls <= 5
