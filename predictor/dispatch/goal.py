"""Goal: what a set of kernels and its rule are judged by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from seqtune.errors import MisuseError
from seqtune.kernels.task import Floats

WORST_SHARE = 0.1  # of all weight: the part of the shapes that the goal "worst" looks at
BESIDE = 0.1  # weight of the slowness itself in the stakes of "within": among equals, the faster member is better


@dataclass(frozen=True, slots=True)
class Goal:
    """The loss of choices, one for each shape; it is lower for better choices.

    `mean`: the weighted mean of the slowness, which is the geometric mean of the time ratios, as a logarithm.
    `worst`: the mean of the slowness over the slowest tenth of the weight.
    `within`: the share of the weight at which the time is more than `factor` times the best.
    """

    kind: Literal["mean", "worst", "within"] = "mean"
    factor: float = 1.10

    def __post_init__(self) -> None:
        if self.kind not in ("mean", "worst", "within"):
            raise MisuseError(f"{self.kind!r:.40} is no goal; there are mean, worst and within")
        if not 1.0 < self.factor < math.inf:
            raise MisuseError(f"a slowdown of {self.factor:g} is impossible; give a factor above 1, such as 1.10")

    def loss(self, slowness: Floats, weights: Floats) -> float:
        """The loss of one choice per shape. Shapes: `slowness` (shape,), log(time / best time); `weights` (shape,)."""
        weights = weights / weights.sum()
        match self.kind:
            case "within":
                return float(weights[slowness > math.log(self.factor)].sum())
            case "worst":
                order = np.argsort(-slowness, kind="stable")
                before = np.cumsum(weights[order]) - weights[order]
                part = np.clip(WORST_SHARE - before, 0.0, weights[order])
                return float(part @ slowness[order] / part.sum())
        return float(weights @ slowness)

    def stakes(self, slowness: Floats) -> Floats:
        """The cost of each slowness by itself, of the same shape: a rule with a low mean cost has a low loss."""
        match self.kind:
            case "within":
                return np.where(slowness > math.log(self.factor), 1.0, 0.0) + BESIDE * slowness
            case "worst":  # a few slow shapes decide
                return slowness**2 + BESIDE * slowness
        return slowness
