"""Fitting: learns the weights of the mixture on problems that its experts were not fitted to.

These are the validation problems of a large training, and the folds of a small one's cross-validation. The weights
minimise the regret of the first proposal, softened: each candidate is proposed with a probability that falls by e with
every SOFT of mixed slowness, and its regret is 1 - share of the best measured speed. The prior counts like a few
problems, so that six problems change little and hundreds decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from seqtune.data.measured_tasks import counted
from seqtune.errors import FormatError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import ChosenTask, Floats, KnownTask, MeasuredTask, Task

from ..trees.cost_trees import Trees
from ..trees.ranker import PROPOSALS, TAU
from .mixture import Candidates, Mixture
from .portfolio import portfolios
from .processes import Processes
from .weights import BEAM, OPINIONS, PRIOR, Weights
from .winners import Entry, Winners

SOFT = 0.02  # about the noise of times
STRENGTH = 1.0  # of the prior: the regret of one problem that a change of a logit by 1 must save
AVERAGED = 24  # problems of a device and an operation from which its portfolio is chosen
NOTHING = 0.05  # the share of a configuration that has nothing in common with a choice; its logarithm is finite
STEPS, RATE = 400, 0.05  # of Adam


@dataclass(frozen=True, slots=True)
class Observed:
    """The experts' opinions on the candidates of one task, and the candidates' log shares of the best measured speed.
    """

    opinions: dict[str, list[float]]  # by expert; those of the beam are its log-probabilities
    log_shares: list[float]
    nearness: float

    def to_json(self) -> dict[str, Any]:
        """A JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> Observed:
        """The inverse of `to_json`. Raises FormatError."""
        try:
            opinions = {str(name): [float(number) for number in numbers]
                        for name, numbers in content["opinions"].items()}
            shares = [float(share) for share in content["log_shares"]]
            if {len(shares)} != {*map(len, opinions.values())}:
                raise ValueError("opinions of different lengths")
            return cls(opinions, shares, float(content["nearness"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise FormatError(f"not the opinions of experts: {error!r:.100}") from None

    def best_of(self, count: int, weights: Weights) -> float:
        """The log share that the best of the first `count` proposals reaches with these weights."""
        slowness = _mixed(weights, self)
        return max(self.log_shares[int(index)] for index in np.argsort(slowness, kind="stable")[:count])


class Experts(Protocol):
    """A `Proposer`: the models that have opinions, and a mixture."""

    @property
    def mixture(self) -> Mixture: ...

    def consulted(self, tasks: Sequence[Task], width: int) -> list[Candidates]: ...


def observe(experts: Experts, measured: KnownTask) -> Observed | None:
    """Ask experts that were not fitted to a task about its measured configurations, or all where choices are known.

    None if there are fewer than two candidates.
    """
    narrowed = measured.measured_only()
    (candidates,) = experts.consulted([narrowed.task], PROPOSALS)
    opinions = experts.mixture.opinions(candidates)
    if len(candidates.numbers) < 2 or not opinions:
        return None
    listed = {name: opinion.tolist() for name, opinion in opinions.items()}
    return Observed({**listed, BEAM: candidates.log_probabilities.tolist()},
                    _log_shares(narrowed, measured, candidates).tolist(), candidates.nearness)


def _log_shares(narrowed: KnownTask, measured: KnownTask, candidates: Candidates) -> Floats:
    """The log shares of the best speed, or of agreement, that candidates of a narrowed task reach: (candidate,)."""
    if isinstance(narrowed, ChosenTask) or isinstance(measured, ChosenTask):
        assert isinstance(narrowed, ChosenTask)
        return log_agreement(narrowed, candidates.numbers)
    seconds = counted(narrowed.seconds[candidates.numbers], measured.time(measured.task.default), narrowed.seconds)
    return np.asarray(np.log(narrowed.best / seconds))


def log_agreement(chosen: ChosenTask, numbers: Numbers) -> Floats:
    """The log of the share of parameters with the chosen value, at least that of NOTHING: (configuration,).

    It stands for the log share of the best speed where only choices are known.
    """
    return np.log(np.maximum(chosen.agreement(numbers), NOTHING))


def weighted_mixture(experts: Experts, validation: Sequence[KnownTask]) -> Mixture:
    """The mixture of experts with the weights that validation tasks give, to which no expert was fitted."""
    observed = [task for measured in validation if (task := observe(experts, measured)) is not None]
    return replace(experts.mixture, weights=fit_weights(observed))


def refitted(mixture: Mixture, fitting: Sequence[KnownTask], trees: Trees,
             others: Sequence[KnownTask] = ()) -> Mixture:
    """The mixture with the same weights, and the table of winners and the processes of training tasks.

    The portfolios are those of the `fitting` ones; the trees, which are fitted to them, complete their times. Choices
    have entries alone: portfolios and processes need times.
    """
    tasks = (*fitting, *others)
    measured = [task for task in fitting if isinstance(task, MeasuredTask)]
    winners = Winners.of([*map(Entry.of, tasks), *portfolios(measured, trees, AVERAGED)])
    return replace(mixture, winners=winners,
                   processes=Processes.of([task for task in tasks if isinstance(task, MeasuredTask)]))


def _mixed(weights: Weights, observed: Observed) -> Floats:
    """The mixed slowness of the candidates, with the beam's log-probabilities."""
    mixed = np.zeros(len(observed.log_shares))
    for name, weight in weights.of({*observed.opinions} - {BEAM}, observed.nearness).items():
        mixed += weight * np.array(observed.opinions[name])
    return mixed - TAU * weights.beam(observed.nearness) * np.array(observed.opinions[BEAM])


def fit_weights(observed: Sequence[Observed], prior: Weights = PRIOR, strength: float = STRENGTH) -> Weights:
    """Fit the weights to observed tasks; the prior itself if there are none."""
    if not observed:
        return prior
    problem = _Arrays.of(observed)
    start = np.array([[prior.base[name] for name in (*OPINIONS, BEAM)],
                      [prior.slope.get(name, 0.0) for name in (*OPINIONS, BEAM)]])  # (base or slope, expert)
    logits, first, second = start.copy(), np.zeros_like(start), np.zeros_like(start)
    for step in range(1, STEPS + 1):
        gradient = problem.gradient(logits) + 2 * strength / len(observed) * (logits - start)
        first += 0.1 * (gradient - first)
        second += 0.01 * (gradient**2 - second)
        logits -= RATE * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
    known = [name for name in (*OPINIONS, BEAM) if name in prior.base]
    return Weights(**{field: {name: float(values[(*OPINIONS, BEAM).index(name)]) for name in known}
                      for field, values in zip(("base", "slope"), logits, strict=True)})


@dataclass(frozen=True, eq=False)
class _Arrays:
    """Observed tasks as arrays, padded with candidates that are never proposed."""

    opinions: Floats  # (task, expert, candidate) in the order of OPINIONS; 0 where there is none
    beam: Floats  # (task, candidate) log-probabilities
    known: Floats  # (task, expert) 1 where the expert has an opinion
    padding: Floats  # (task, candidate) 0, or a huge slowness
    regrets: Floats  # (task, candidate)
    nearness: Floats  # (task,)

    @classmethod
    def of(cls, observed: Sequence[Observed]) -> _Arrays:
        most = max(len(task.log_shares) for task in observed)
        opinions = np.zeros((len(observed), len(OPINIONS), most))
        beam, padding, regrets = (np.zeros((len(observed), most)) for _ in range(3))
        known = np.zeros((len(observed), len(OPINIONS)))
        for index, task in enumerate(observed):
            count = len(task.log_shares)
            for expert, name in enumerate(OPINIONS):
                if name in task.opinions:
                    opinions[index, expert, :count], known[index, expert] = task.opinions[name], 1
            beam[index, :count], padding[index, count:] = task.opinions[BEAM], 1e6
            regrets[index, :count] = -np.expm1(task.log_shares)
        return cls(opinions, beam, known, padding, regrets, np.array([task.nearness for task in observed]))

    def regret(self, logits: Floats) -> float:
        """The mean softened regret for `logits` (base or slope, expert); the last expert is the beam."""
        chances = self._chances(logits)[0]
        return float((chances * self.regrets).sum(axis=1).mean())

    def gradient(self, logits: Floats) -> Floats:
        """The gradient of `regret` by the logits."""
        chances, weights, factor = self._chances(logits)
        expected = (chances * self.regrets).sum(axis=1, keepdims=True)
        slope = -chances * (self.regrets - expected) / SOFT  # of the regret by the mixed slowness
        by_weight = np.einsum("tc,tec->te", slope, self.opinions)
        by_logit = weights * (by_weight - (weights * by_weight).sum(axis=1, keepdims=True))
        by_beam = -TAU * factor * (slope * self.beam).sum(axis=1)
        of_each = np.column_stack([by_logit, by_beam])
        return np.stack([of_each.mean(axis=0), (self.nearness[:, None] * of_each).mean(axis=0)])

    def _chances(self, logits: Floats) -> tuple[Floats, Floats, Floats]:
        """The probability of each candidate (task, candidate), the weights (task, expert) and the beam's factor."""
        each = logits[0] + self.nearness[:, None] * logits[1]  # (task, expert)
        weights = np.exp(each[:, :-1]) * self.known
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-30)
        factor = np.exp(each[:, -1])
        mixed = np.einsum("te,tec->tc", weights, self.opinions) - TAU * factor[:, None] * self.beam + self.padding
        chances = np.exp(-(mixed - mixed.min(axis=1, keepdims=True)) / SOFT)
        return chances / chances.sum(axis=1, keepdims=True), weights, factor
