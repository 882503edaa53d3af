"""Weights: how much each expert's opinion counts for a task, by the nearness of the training problems.

The weights are a softmax, over the experts that have an opinion, of a base and a slope times the nearness. The beam is
no part of it: the exponential of its logit multiplies its log-probabilities. The logits are learned on problems that
the experts were not fitted to (`fitting`). On a device without measurements in the training data nothing was learned
about the experts, and the prior's weights count.
"""

from __future__ import annotations

from collections.abc import Collection
from math import exp
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

OPINIONS = ("trees", "judge", "nearest", "fixed", "analytic", "gaussian_process")  # experts whose slowness is averaged
BEAM = "beam"
EXPERTS = (*OPINIONS, BEAM)
LARGEST_LOGIT = 30.0

_Logit = Annotated[float, Field(ge=-LARGEST_LOGIT, le=LARGEST_LOGIT, allow_inf_nan=False)]


class Weights(BaseModel):
    """The base and the slope of each expert's logit; an expert without a base does not count."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    base: dict[str, _Logit] = Field(max_length=len(EXPERTS))
    slope: dict[str, _Logit] = Field(default={}, max_length=len(EXPERTS))

    @model_validator(mode="after")
    def _known(self) -> Weights:
        if not {*self.slope} <= {*self.base} <= {*EXPERTS} or BEAM not in self.base:
            raise ValueError(f"experts must be among {', '.join(EXPERTS)}, and {BEAM} one of them")
        return self

    def is_part_of(self, other: Weights) -> bool:
        """Whether these are the other weights, perhaps without some of its experts."""
        return self.base.items() <= other.base.items() and self.slope.items() <= other.slope.items()

    def of(self, experts: Collection[str], nearness: float) -> dict[str, float]:
        """The weights of those experts that have an opinion; they sum to 1, or there are none."""
        logits = {name: self._logit(name, nearness) for name in experts if name in self.base}
        most = max(logits.values(), default=0.0)
        total = sum(exp(logit - most) for logit in logits.values())
        return {name: exp(logit - most) / total for name, logit in logits.items()}

    def beam(self, nearness: float) -> float:
        """The factor of the beam's log-probabilities."""
        return exp(self._logit(BEAM, nearness))

    def _logit(self, name: str, nearness: float) -> float:
        return self.base[name] + self.slope.get(name, 0.0) * nearness


FIXED_MEAN = Weights(base={"trees": 0.0, "judge": 0.0, BEAM: 0.0})  # of checkpoints without a learned mixture
# What is believed before anything is learned: the mean of trees and judge, with a quarter of all for the nearest
# problems; 0.2 to 0.5 of it beside trees were alike on 6, 12 and 30 problems of seven groups of kernel and device.
# Gaussian processes exist only for few measurements. As much weight as the trees' was best on pools of 6 problems.
PRIOR = Weights(base={"trees": 0.0, "judge": 0.0, "nearest": -0.5, "fixed": -3.0, "analytic": -3.0,
                      "gaussian_process": 0.0, BEAM: -0.5})
# The same for few problems on devices that were measured, where the same configuration may be best for all of them.
FEW_PRIOR = Weights(base={**PRIOR.base, "fixed": -1.0})
