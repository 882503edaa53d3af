"""Parts of a checkpoint, each alone: the transformer, the boosted trees on every configuration, and both as shipped.

Their shares are compared case by case, a case being a problem on a device. All intervals are bootstraps of the
problems: a problem is drawn with all its devices, because its cases are alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.common.evaluation import COUNTS
from benchmarks.common.report import Row, interval, markdown
from seqtune.predictor.learning.tasks.shares import DRAWS, Outcome

TITLES = {"transformer": "transformer alone", "trees": "its trees alone", "seqtune": "both, as shipped"}
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def share(self) -> str:
        """The text of a share."""
        return f"{self.value:.3f} {interval(self.low, self.high)}"

    def difference(self) -> str:
        """The text of a difference of shares."""
        return f"{self.value:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def part_cases(outcomes: Iterable[Outcome]) -> list[Row]:
    """Make a row for each case: the share of each part for each of COUNTS."""
    return [{"device": outcome.device, "problem": outcome.problem, "shares": {
        part: [round(float(np.exp(outcome.log_shares[part, count])), 6) for count in COUNTS] for part in TITLES}}
        for outcome in outcomes]


class PartShares:
    """The log shares of the parts over some cases, and the weights of the cases in each draw of the bootstrap."""

    def __init__(self, cases: Sequence[Row], draws: int = DRAWS, seed: int = 0) -> None:
        self.cases = cases
        problems, owner = np.unique([case["problem"] for case in cases], return_inverse=True)
        self.problems = len(problems)
        drawn = np.random.default_rng(seed).multinomial(
            len(problems), np.full(len(problems), 1 / len(problems)), size=draws)
        self._weights: Floats = drawn[:, owner] / drawn[:, owner].sum(axis=1, keepdims=True)  # (draw, case)

    def logs(self, part: str, count: int) -> Floats:
        """The log shares of a part, (case,)."""
        return np.log([case["shares"][part][COUNTS.index(count)] for case in self.cases])

    def share(self, part: str, count: int) -> Interval:
        """The geometric mean share of a part."""
        logs = self.logs(part, count)
        return _interval(float(np.exp(logs.mean())), np.exp(self._weights @ logs))

    def difference(self, part: str, other: str, count: int = 0) -> Interval:
        """The geometric mean share of a part minus that of another one, in the same draws."""
        ours, theirs = self.logs(part, count), self.logs(other, count)
        return _interval(float(np.exp(ours.mean()) - np.exp(theirs.mean())),
                         np.exp(self._weights @ ours) - np.exp(self._weights @ theirs))


def _interval(value: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, float(low), float(high))


def verdict(shares: PartShares) -> str:
    """Say whether the transformer alone is below, level with or above the trees, and the same of both together.

    A share is above or below another one if the 95 % interval of their paired difference does not contain 0.
    """
    apart = shares.difference("transformer", "trees")
    gains = {other: shares.difference("seqtune", other) for other in ("transformer", "trees")}
    listed = " and ".join(f"{relation(gain)} the {other} alone ({gain.difference()})" for other, gain in gains.items())
    outdone = ("neither", "one of them only", "both")[sum(gain.low > 0 for gain in gains.values())]
    return (f"The transformer alone is {relation(apart)} the trees alone ({apart.difference()}). Both together are "
            f"{listed}, so significantly above {outdone}.")


def relation(difference: Interval) -> str:
    """Whether the first of two shares is above, level with or below the second, by the interval of their difference."""
    return "above" if difference.low > 0 else "below" if difference.high < 0 else "level with"


def paragraph(cases: Sequence[Row]) -> str:
    """The first proposals of the parts, with 95 % intervals, and the verdict."""
    shares = PartShares(cases)
    return (f"Of the parts of the shipped checkpoint, the transformer alone reaches "
            f"{shares.share('transformer', 0).share()} with its first proposal, the trees alone "
            f"{shares.share('trees', 0).share()} and both together {shares.share('seqtune', 0).share()} (geometric "
            f"means over {len(cases)} cases, {shares.problems} problems on their devices; in brackets 95 % intervals, "
            f"by drawing problems; those of differences are paired). {verdict(shares)}")


def parts_table(cases: Sequence[Row]) -> str:
    """Make the table, a line for each part: the first proposal by device, then over all devices."""
    devices = sorted({case["device"] for case in cases})
    by_device = [PartShares([case for case in cases if case["device"] == device]) for device in devices]
    everywhere = PartShares(cases)
    return markdown(
        ["first proposal", *devices, "all", "all, best of 3", "all, best of 5"],
        [[title, *(f"{np.exp(shares.logs(part, 0).mean()):.3f}" for shares in by_device),
          *(everywhere.share(part, count).share() for count in COUNTS)] for part, title in TITLES.items()])
