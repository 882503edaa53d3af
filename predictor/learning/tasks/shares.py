"""Shares: the outcomes of methods on problems, and the rows of the table that summarises them with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from seqtune.errors import FormatError
from seqtune.kernels.task import Floats

OURS = "seqtune"  # the checkpoint as it answers, with which every other method is compared
DRAWS = 4000  # samples of the bootstrap; the interval's ends change by less than 0.001 between seeds


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the methods on one problem: log shares by (method, measured)."""

    problem: str
    device: str
    log_shares: Mapping[tuple[str, int], float]
    unmeasured: int
    retest: float | None = None  # log share of an oracle whose choice was measured again; None if that is unknown

    def to_json(self) -> dict[str, object]:
        """The outcome as a JSON object."""
        return {**asdict(self), "log_shares": [[*key, share] for key, share in self.log_shares.items()]}

    @classmethod
    def from_json(cls, content: object) -> Outcome:
        """The inverse of `to_json`. Raises FormatError."""
        try:
            assert isinstance(content, Mapping)
            shares = {(str(method), int(count)): float(share) for method, count, share in content["log_shares"]}
            retest = content["retest"]
            return cls(str(content["problem"]), str(content["device"]), shares, int(content["unmeasured"]),
                       None if retest is None else float(retest))
        except (AssertionError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the outcome of a problem: {error!r:.100}") from None


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A row of the table: a method on a device."""

    device: str
    method: str
    measured: int  # 0: the first proposal without measuring; n: the best of n measured proposals
    share: float  # geometric mean over problems of best known time / time of the choice
    share_low: float  # 95 % interval of this share, by a bootstrap of problems
    share_high: float
    ceiling: float | None  # share that an oracle reaches on a re-test (geometric mean); None without repeated builds
    problems: int
    low: float | None = None  # 95 % interval of seqtune's share minus this method's, by a paired bootstrap of problems
    high: float | None = None
    worse: bool = False  # whether seqtune is worse: the whole interval is below 0
    regret_ratio: float | None = None  # for seqtune without measuring: (1 - share) / (1 - share of fixed)
    unmeasured: int = 0  # configurations of these problems that have no time, so that no method can choose them
    trained_on: int | None = None  # live only: problems that are, or nearly are, training problems of the data set

    def to_json(self) -> dict[str, object]:
        """The row as a flat JSON object; only live evaluations have `trained_on`."""
        return {name: value for name, value in asdict(self).items() if name != "trained_on" or value is not None}


def rows(results: Sequence[Outcome], draws: int = DRAWS, seed: int = 0) -> list[EvaluationRow]:
    """The table of outcomes: geometric means by device, method and number, each compared with seqtune's."""
    table: list[EvaluationRow] = []
    for device in dict.fromkeys(outcome.device for outcome in results):
        on_device = [outcome for outcome in results if outcome.device == device]
        columns = {key: np.array([outcome.log_shares[key] for outcome in on_device])
                   for key in on_device[0].log_shares}
        retests = [outcome.retest for outcome in on_device if outcome.retest is not None]
        ceiling = math.exp(np.mean(retests)) if retests else None
        unmeasured = sum(outcome.unmeasured for outcome in on_device)
        for (method, count), logs in columns.items():
            low = high = ratio = None
            if method == OURS:
                if count == 0 and ("fixed", 0) in columns:
                    fixed_regret = -math.expm1(columns["fixed", 0].mean())
                    ratio = max(0.0, -math.expm1(logs.mean()) / fixed_regret) if fixed_regret > 0 else None
            elif (OURS, count) in columns:
                low, high = bootstrap(columns[OURS, count], logs, draws, seed)
            table.append(EvaluationRow(
                device, method, count, math.exp(logs.mean()), *interval(logs, draws, seed), ceiling, len(on_device),
                low, high, high is not None and high < 0, ratio, unmeasured))
    return table


def bootstrap(ours: Floats, theirs: Floats, draws: int, seed: int) -> tuple[float, float]:
    """The 95 % interval of the difference of the geometric means of two methods, from their log shares (problem,).

    The same problems are drawn for both methods.
    """
    chosen = _drawn(len(ours), draws, seed)
    return _ends(np.exp(ours[chosen].mean(axis=1)) - np.exp(theirs[chosen].mean(axis=1)))


def interval(logs: Floats, draws: int, seed: int) -> tuple[float, float]:
    """The 95 % interval of the geometric mean of one method, from its log shares (problem,)."""
    return _ends(np.exp(logs[_drawn(len(logs), draws, seed)].mean(axis=1)))


def _drawn(problems: int, draws: int, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The indices of the problems in each draw, (draw, problem)."""
    return np.random.default_rng(seed).integers(0, problems, (draws, problems))


def _ends(values: Floats) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
