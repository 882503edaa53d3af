"""Choice rows: what another tuner chose beside configurations that it did not choose, for boosted trees to learn from.

A slowness of NAT makes a configuration e times less likely to be chosen. The likelihood of a choice is compared with
that of REJECTED configurations, half of them drawn among those that the analytic model estimates to be fastest, which
are hard to tell apart, and half among all. How often a configuration is drawn is corrected for (sampled softmax, Bengio
and Senecal 2008), so the trees learn the likelihood among all valid configurations.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import ChosenTask, Floats
from seqtune.tuner.cost_models.analytic import estimates

NAT = 0.04  # as TrainingOptions.tau: the wanted probabilities of the translator are then the likelihoods of the trees
REJECTED = 24  # configurations of a task, beside the chosen ones
CHOSEN = 0.5  # probability of the choices themselves; people who tuned one GPU twice agree in 0.27 of them
FAST = 0.1  # share of a space, the fastest by the analytic model, of which half of the rejected ones are drawn


@dataclass(frozen=True, eq=False)
class ChoiceRows:
    """Rows of one space: chosen ones, then rejected ones."""

    space: SearchSpace
    rows: Numbers  # (row,)
    share: Floats  # (row,) of the choices; sums to 1
    log_draws: Floats  # (row,) log of how often the row is drawn, relative to an even draw
    weight: float

    def __len__(self) -> int:
        return len(self.rows)


def choice_rows(chosen: ChosenTask, seed: int) -> Iterator[ChoiceRows]:
    """Draw the rows of the spaces that hold choices."""
    seconds = estimates(chosen.task)
    for space, part in chosen.task.parts():
        own = np.flatnonzero((chosen.numbers >= part.start) & (chosen.numbers < part.stop))
        if len(own) and len(space) > 1:
            draw = np.random.default_rng([seed, zlib.crc32(f"{space.problem.key} {space.device.key}".encode())])
            wanted = chosen.numbers[own] - part.start
            fast = _fastest(seconds[part])
            others = draw.integers(0, len(space), REJECTED)
            if len(fast):
                others[::2] = fast[draw.integers(0, len(fast), len(others[::2]))]
            rows = np.concatenate([wanted, np.setdiff1d(others, wanted)])
            log_draws = np.zeros(len(rows))
            if len(fast):
                log_draws = np.log(0.5 + np.isin(rows, fast) * 0.5 * len(space) / len(fast))
            weights = np.pad(chosen.weights[own], (0, len(rows) - len(own)))
            yield ChoiceRows(space, rows, weights / weights.sum(), log_draws, float(weights.sum()))


def _fastest(seconds: Floats) -> Numbers:
    """The rows of the FAST share of a space, sorted; none if times are not estimated."""
    if np.isnan(seconds).all():
        return np.empty(0, np.int64)
    return np.sort(np.argsort(seconds, kind="stable")[:max(1, int(FAST * len(seconds)))])


def between(expected: Floats, chosen: ChosenTask) -> Floats:
    """The slowness of each configuration where it is half as expected, and half that of the choices alone: (number,).

    With it a translator learns that near ties of a choice are as likely, and the choices themselves a little more.
    """
    likely = np.exp(-(expected - expected.min()) / NAT)
    likely *= (1 - CHOSEN) / likely.sum()
    likely[chosen.numbers] += CHOSEN * chosen.shares
    return np.asarray(NAT * np.log(likely.max() / np.maximum(likely, 1e-200)))


@dataclass(frozen=True, eq=False)
class ChoiceObjective:
    """The objective of trees that learn from measured rows and, after them, from choices: predictions are slownesses.

    Measured rows have the squared error, as if times had a noise of NAT; choices have their negative log-likelihood.
    """

    target: Floats  # (measured row,)
    weights: Floats  # (measured row,)
    parts: Sequence[ChoiceRows]

    def __call__(self, predicted: NDArray[np.float32], matrix: object) -> tuple[Floats, Floats]:
        """The gradient and the diagonal of the Hessian by the predictions: (row,) each."""
        measured = len(self.target)
        lengths = [len(part) for part in self.parts]
        starts = np.cumsum([0, *lengths[:-1]])
        share = np.concatenate([part.share for part in self.parts])
        weight = np.repeat([part.weight for part in self.parts], lengths)
        scores = -predicted[measured:] / NAT - np.concatenate([part.log_draws for part in self.parts])
        likely = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), lengths))
        likely /= np.repeat(np.add.reduceat(likely, starts), lengths)
        gradient = np.concatenate([self.weights * (predicted[:measured] - self.target) / NAT**2,
                                   weight * (share - likely) / NAT])
        curvature = np.concatenate([self.weights / NAT**2,
                                    weight * np.maximum(likely * (1 - likely), 1e-3) / NAT**2])
        return gradient, curvature
