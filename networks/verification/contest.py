"""NetworkContest: the predicted and the verified form of a network, which compute in turns."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from seqtune.tuner.measuring.comparison import typical
from seqtune.tuner.measuring.deadline import OVERRUN, Deadline, OutOfTime
from seqtune.tuner.measuring.timed_calls import time_calls

from ..capture.examples import clones
from ..program.device_threads import TURN
from .budget import guarded, rounds_within

FEWEST_ROUNDS, MOST_ROUNDS = 3, 25
SAMPLE_SECONDS = 5e-3  # two calls of the smallest networks
SHARE = 0.4  # of the seconds that are left; the comparison with PyTorch's forms needs the rest
CALLS = 4  # of a network in each round: each form warms up and is timed


@dataclass(frozen=True, slots=True)
class NetworkContest:
    """The result: `ratio` is the predicted form's typical time over the verified one's."""

    ratio: float
    spread: float  # interquartile range of the rounds' ratios


def hold_contest(predicted: nn.Module, verified: nn.Module, examples: Sequence[Any], run_seconds: float,
                 deadline: Deadline) -> NetworkContest | None:
    """Time both in turns; None where OVERRUN times the budget is spent before the end. A run takes about `run_seconds`.

    The medians decide, without a margin or a test. Each layer's winner was measured alone, which is no evidence that
    the network is faster with it; a rule that keeps the winners until a test rejects them would keep small losses.
    """
    operands = clones(examples)  # a graph may change its operands
    rounds = rounds_within(SHARE * deadline.left, CALLS * max(run_seconds, SAMPLE_SECONDS), FEWEST_ROUNDS, MOST_ROUNDS)
    end = deadline.scaled(OVERRUN)
    with TURN, torch.no_grad(), suppress(OutOfTime):
        samples = time_calls({"predicted": guarded(partial(predicted, *operands), end),
                              "verified": guarded(partial(verified, *operands), end)}, rounds, SAMPLE_SECONDS)
        return contest_of(samples["predicted"], samples["verified"])
    return None


def contest_of(predicted: Sequence[float], verified: Sequence[float]) -> NetworkContest:
    """The outcome of a contest, from the seconds of both forms in each round."""
    seconds = typical({"predicted": predicted, "verified": verified})
    lower, upper = np.percentile(np.asarray(predicted) / np.asarray(verified), [25, 75])
    return NetworkContest(seconds["predicted"] / seconds["verified"], float(upper - lower))
