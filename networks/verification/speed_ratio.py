"""SpeedRatio: how much faster a network computes with verified layers than as predicted, measured in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
SHARE = 0.4  # share of the seconds left; the comparison with PyTorch's forms needs the rest
CALLS = 4  # runs of a network in each round: both networks warm up and are timed


@dataclass(frozen=True, slots=True)
class SpeedRatio:
    """`ratio` is the predicted network's typical time over the verified one's."""

    ratio: float
    spread: float  # interquartile range of the rounds' ratios

    @classmethod
    def of(cls, predicted: Sequence[float], verified: Sequence[float]) -> SpeedRatio:
        """The ratio of two networks, from the seconds of both in each round."""
        seconds = typical({"predicted": predicted, "verified": verified})
        lower, upper = np.percentile(np.asarray(predicted) / np.asarray(verified), [25, 75])
        return cls(seconds["predicted"] / seconds["verified"], float(upper - lower))


def measure_ratio(predicted: nn.Module, verified: nn.Module, examples: Sequence[Any], run_seconds: float,
                  deadline: Deadline, timer: Callable[..., Mapping[str, Sequence[float]]] = time_calls
                  ) -> SpeedRatio | None:
    """Time both networks in turns; None where OVERRUN times the budget is spent before the end.

    A run takes about `run_seconds`. The medians decide, without a margin or a test. Each layer's winner was measured
    alone, which is no evidence that the network is faster with it; a rule that keeps the winners until a test rejects
    them would keep small losses.
    """
    operands = clones(examples)  # a graph may change its operands
    rounds = rounds_within(SHARE * deadline.left, CALLS * max(run_seconds, SAMPLE_SECONDS), FEWEST_ROUNDS, MOST_ROUNDS)
    end = deadline.scaled(OVERRUN)
    with TURN, torch.no_grad(), suppress(OutOfTime):
        samples = timer({"predicted": guarded(partial(predicted, *operands), end),
                         "verified": guarded(partial(verified, *operands), end)}, rounds, SAMPLE_SECONDS)
        return SpeedRatio.of(samples["predicted"], samples["verified"])
    return None
