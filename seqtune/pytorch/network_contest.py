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
from seqtune.tuner.measuring.timed_calls import time_calls

from .device_threads import TURN
from .network_budget import NetworkBudget, OutOfTimeError, rounds_within
from .operands.examples import clones

FEWEST_ROUNDS, MOST_ROUNDS = 3, 25
SAMPLE_SECONDS = 5e-3  # two calls of the smallest networks
SHARE = 0.4  # of what is left of the budget; the comparison with PyTorch's forms needs the rest
CALLS = 4  # of a network in each round: both forms warm up and are timed


@dataclass(frozen=True, slots=True)
class NetworkContest:
    """The predicted form's typical time over the verified one's, and the middle half of the rounds' ratios."""

    ratio: float
    spread: float


def hold_contest(predicted: nn.Module, verified: nn.Module, examples: Sequence[Any], run_seconds: float,
                 budget: NetworkBudget) -> NetworkContest | None:
    """Time both in turns, where a run takes about `run_seconds`; None where the budget ends before FEWEST_ROUNDS do.

    The medians decide, without a margin or a test: the winners of the layers were measured alone, which is no evidence
    that the network is faster with them, and a demand for clear evidence would keep a form that is slower by less.
    """
    given = clones(examples)  # a graph may change its operands
    rounds = rounds_within(SHARE * budget.left(), CALLS * max(run_seconds, SAMPLE_SECONDS), FEWEST_ROUNDS, MOST_ROUNDS)
    with TURN, torch.no_grad(), suppress(OutOfTimeError):
        taken = time_calls({"predicted": budget.guarded(partial(predicted, *given)),
                            "verified": budget.guarded(partial(verified, *given))}, rounds, SAMPLE_SECONDS)
        return contest_of(taken["predicted"], taken["verified"])
    return None


def contest_of(predicted: Sequence[float], verified: Sequence[float]) -> NetworkContest:
    """The outcome by the seconds of both in each round."""
    seconds = typical({"predicted": predicted, "verified": verified})
    lower, upper = np.percentile(np.asarray(predicted) / np.asarray(verified), [25, 75])
    return NetworkContest(seconds["predicted"] / seconds["verified"], float(upper - lower))
