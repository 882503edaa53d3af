"""Confidence model: estimates which share of the best speed each candidate reaches, with an interval.

The log regret of a candidate, log(time / best time), is modelled as an expected regret times a random factor. The
expected regret grows with five signals that are known before measuring: the predicted slowness, the regret that the
members of the ensemble see, how far the members disagree, how much the beam search prefers another candidate, and the
loss that small trees expect (see `losses`), where there were enough problems to fit them. It is larger on devices of
the training data where more is usually lost, such as those with noisy times. Its coefficients are not negative, since
with few problems anything more flexible follows chance. The random factors are those observed on problems that the
trees were not fitted to. Their quantiles give conformal intervals: one split for devices of the training data, one for
new machines, from machines that were left out (Lei et al., "Distribution-Free Predictive Inference for Regression",
2018).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from seqtune.kernels.devices.device import LONGEST_IDENTITY, Device
from seqtune.kernels.kernel import Kernel
from seqtune.kernels.task import Floats, MeasuredTask

from ..candidate import Confidence
from .losses import LossTrees

if TYPE_CHECKING:
    from ..proposing import Candidates

SIGNALS = ("slowness", "regret among members", "disagreement", "doubt", "loss")
DOUBT = SIGNALS.index("doubt")
LEAST_SIGNALS = DOUBT  # older checkpoints lack the doubt and the loss, those of few problems the loss
MOST_DOUBT = 10.0  # nats; beyond that the beam search itself is hardly calibrated
CREDIBILITY = 30.0  # typical tasks that a device needs before its own regret counts more than the average one
LEVELS = 101  # quantiles of the factor: 0 %, 1 %, ..., 100 %
LOW, HIGH = 0.1, 0.9  # quantiles of the share: the interval holds 80 %, and 90 % are above its lower end
LEAST_REGRET = 1e-3  # of the model: a tenth of the noise of a time, so that factors stay finite
LARGEST_FACTOR = 1e4
MOST_SCALED, HALVINGS = 2.0, 12  # the largest change of all quantiles by one factor, and the steps to find it
ROUNDS = 4  # in which scales and coefficients are fitted in turns; they change by less than 1 % after that
RIDGE = 0.02  # of the coefficients, relative to the signals' mean squares
MOST_DEVICES = 100_000
MOST_KERNELS = 10_000

_Number = Annotated[float, Field(ge=0, le=LARGEST_FACTOR, allow_inf_nan=False)]
_Identity = Annotated[str, Field(max_length=LONGEST_IDENTITY)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class RegretModel(BaseModel):
    """The expected log regret as a sum over signals, and quantiles of the observed regret over the expected one."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    constant: _Number
    weights: tuple[_Number, ...] = Field(min_length=LEAST_SIGNALS, max_length=len(SIGNALS))
    known: tuple[_Number, ...] = Field(min_length=LEVELS, max_length=LEVELS)  # on devices of the training data
    new: tuple[_Number, ...] = Field(min_length=LEVELS, max_length=LEVELS)  # on machines that it does not hold
    usual_doubt: _Number = 0.0  # counts where nothing was searched
    scales: dict[_Identity, _Number] = Field(default={}, max_length=MOST_DEVICES)  # of the regret, by `identity`

    @model_validator(mode="after")
    def _ascending(self) -> RegretModel:
        if any((np.diff(quantiles) < 0).any() for quantiles in (self.known, self.new)):
            raise ValueError("quantiles must not decrease")
        return self

    def expected(self, signals: Floats, device: str = "") -> Floats:
        """The expected log regret (candidate,) for signals (candidate, signal) on a device of this `identity`."""
        complete = np.where(np.isnan(signals), self.usual_doubt, signals)  # only a doubt can be unknown
        regret = np.full(len(complete), self.constant)
        for weight, signal in zip(self.weights, complete.T, strict=False):
            regret += weight * signal
        return np.maximum(self.scales.get(device, 1.0) * regret, LEAST_REGRET)

    def confidences(self, signals: Floats, is_known: bool, device: str = "") -> list[Confidence]:
        """The confidence of each candidate on a device, given by its `identity`."""
        factors = _array(self.known if is_known else self.new)
        shares = np.exp(-np.outer(self.expected(signals, device), factors))  # (candidate, level), descending
        means = _mean_shares(shares)
        ends = [round((1 - level) * (LEVELS - 1)) for level in (LOW, HIGH)]
        return [Confidence(mean, low, high) for mean, (low, high)
                in zip(means.tolist(), shares[:, ends].tolist(), strict=True)]


class ConfidenceModel(BaseModel):
    """The regret models of first candidates and of others, and the devices of the training data."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    first: RegretModel
    other: RegretModel
    losses: LossTrees | None = None  # None with few problems, and in older checkpoints
    devices: tuple[_Identity, ...] = Field(max_length=MOST_DEVICES)  # `identity`
    kernels: tuple[_Name, ...] = Field(default=(), max_length=MOST_KERNELS)  # measured ones; older checkpoints: empty

    @model_validator(mode="after")
    def _loss_is_known(self) -> ConfidenceModel:
        if self.losses is None and any(len(model.weights) == len(SIGNALS) for model in (self.first, self.other)):
            raise ValueError("a loss counts, and no trees expect it")
        return self

    def knows(self, device: Device) -> bool:
        """Return whether the training data hold measurements of the device."""
        return device.identity in self.devices

    def lacks_times(self, kernels: Iterable[Kernel]) -> bool:
        """Return whether no time was learned of one of these kernels, so that their shares are unknown."""
        return bool(self.kernels) and any(kernel.name not in self.kernels for kernel in kernels)

    def with_tasks(self, tasks: Iterable[MeasuredTask]) -> ConfidenceModel:
        """The same model for training data that hold these measured tasks, too."""
        tasks = tuple(tasks)
        devices = {*self.devices, *(measured.device.identity for measured in tasks)}
        kernels = {*self.kernels, *kernel_names(tasks)} if self.kernels else ()
        return self.model_copy(update={"devices": tuple(sorted(devices)), "kernels": tuple(sorted(kernels))})

    def confidences(self, candidates: Candidates, count: int | None = None) -> list[Confidence] | None:
        """The confidence of the first `count` ordered candidates (None: of all).

        None if a slowness is unknown (NaN), or if no times were learned of one of the task's kernels: choices do
        not tell how much slower other configurations are.
        """
        if not len(candidates.slowness) or np.isnan(candidates.slowness).any():
            return None
        if self.lacks_times(candidates.task.kernels):
            return None
        signals = signals_of(candidates.slowness, candidates.members, candidates.log_probabilities)
        if self.losses is not None:
            signals = np.column_stack([signals, self.losses.losses(candidates)])
        return self.confidences_of(signals[:count], candidates.task.device)

    def confidences_of(self, signals: Floats, device: Device) -> list[Confidence]:
        """The confidence of each of the ordered candidates from their signals (candidate, signal).

        On a device that the training data lack, no interval is narrower than that of a candidate before it.
        """
        known, name = self.knows(device), device.identity
        confidences = [*self.first.confidences(signals[:1], known, name),
                       *self.other.confidences(signals[1:], known, name)]
        return confidences if known else never_narrower(confidences)


def never_narrower(confidences: Iterable[Confidence]) -> list[Confidence]:
    """The confidences of ordered candidates, with intervals extended to the width of each one before them.

    All shares refer to the same best time. Where it is not known well, it is as unknown for a later candidate as for
    the first, but the models of both learned their signals apart, on other devices. An interval is extended downwards,
    and also upwards where it would end below 0: it contains the one that was given, so it holds no fewer shares.
    """
    widest = 0.0
    extended = []
    for given in confidences:
        low, high = max(0.0, min(given.low, given.high - widest)), max(given.high, widest)
        extended.append(Confidence(given.share, low, high))
        widest = max(widest, high - low)
    return extended


def kernel_names(tasks: Iterable[MeasuredTask]) -> set[str]:
    """The names of the kernels of measured tasks."""
    return {kernel.name for measured in tasks for kernel in measured.task.kernels}


@lru_cache(maxsize=64)
def _array(quantiles: tuple[float, ...]) -> Floats:
    return np.array(quantiles)


def signals_of(slowness: Floats, members: Floats | None, log_probabilities: Floats | None = None) -> Floats:
    """The signals of candidates, without the loss, from their expected log slowness and what each member predicts.

    Shapes: `slowness` (candidate,), `members` (candidate, member), `log_probabilities` (candidate,) of the
    beam search. Without members the ensemble counts as agreeing; without log-probabilities the doubt is NaN.
    """
    predicted = slowness[:, None] if members is None else slowness[:, None] + members - members.mean(
        axis=1, keepdims=True)
    regret = (predicted - predicted.min(axis=0)).mean(axis=1)
    doubt = np.full(len(slowness), np.nan)
    if log_probabilities is not None:
        doubt = np.minimum(log_probabilities.max() - log_probabilities, MOST_DOUBT)
    return np.column_stack([np.maximum(slowness, 0.0), regret, predicted.std(axis=1), doubt])


def fit_regret(known: Sequence[tuple[Floats, Floats]], new: Sequence[tuple[Floats, Floats]],
               devices: Sequence[str] | None = None, further: Sequence[tuple[Floats, Floats]] = (),
               further_devices: Sequence[str] = ()) -> RegretModel:
    """Fit a model to pairs of signals (candidate, signal) and log regrets (candidate,), one pair for each task.

    Every task counts the same. The coefficients come from `known`; `new` holds tasks of machines that the trees had not
    seen, and may be empty: then they count as `known`. `devices` holds the identity of each known task's device. From
    `further` tasks, for which fewer models proposed, come coefficients and scales as well, but no quantiles. A device's
    scale is its total regret over the expected one, both increased by that of CREDIBILITY average tasks (as in
    Buehlmann, "Experience rating and credibility", 1967).
    """
    own = [""] * len(known) if devices is None else list(devices)
    fitted, names = [*known, *further], [*own, *further_devices]
    doubts = np.concatenate([signals[:, DOUBT] for signals, _ in fitted])
    usual = float(np.nanmean(doubts)) if not np.isnan(doubts).all() else 0.0
    columns = np.concatenate([np.column_stack([np.ones(len(signals)), np.where(np.isnan(signals), usual, signals)])
                              for signals, _ in fitted])
    regrets = np.concatenate([regret for _, regret in fitted])
    weights = np.concatenate([np.full(len(regret), 1 / len(regret)) for _, regret in fitted])
    rows = np.repeat(names, [len(regret) for _, regret in fitted])
    trusted = CREDIBILITY * float((weights * regrets).sum()) / len(fitted)
    scales: dict[str, float] = {}
    for _ in range(ROUNDS):
        scale = np.array([scales.get(name, 1.0) for name in rows.tolist()])
        gram = (columns * (weights * scale)[:, None]).T @ columns  # least squares, where a scale is also a variance
        gram[np.arange(1, len(gram)), np.arange(1, len(gram))] *= 1 + RIDGE
        coefficients = _nonnegative(gram, (columns * weights[:, None]).T @ regrets)
        if devices is None or not trusted:
            break
        expected = columns @ coefficients
        scales = {name: min((float((weights * regrets)[rows == name].sum()) + trusted)
                            / (float((weights * expected)[rows == name].sum()) + trusted), LARGEST_FACTOR)
                  for name in sorted(set(names))}
    model = RegretModel(constant=float(coefficients[0]), weights=tuple(coefficients[1:].tolist()),
                        known=(1.0,) * LEVELS, new=(1.0,) * LEVELS, usual_doubt=usual, scales=scales)
    factors = _factors(model, known, own)
    return model.model_copy(update={"known": factors, "new": _factors(model, new, [""] * len(new)) if new else factors})


def _nonnegative(gram: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """The least squares solution of the normal equations among coefficients >= 0, by coordinate descent."""
    solution = np.zeros(len(right))
    for _ in range(2000):  # a handful of unknowns: converges long before
        for index in range(len(right)):
            if gram[index, index] > 0:
                rest = right[index] - gram[index] @ solution + gram[index, index] * solution[index]
                solution[index] = max(0.0, rest / gram[index, index])
    return solution


def _factors(model: RegretModel, tasks: Sequence[tuple[Floats, Floats]], devices: Sequence[str]) -> tuple[float, ...]:
    """The conformal quantiles of observed over expected regret; with n tasks, level a is that of rank a * (n + 1).

    They are multiplied by a number near 1, with which the mean expected share is the observed one: the factors of
    tasks with a large expected regret spread less, so that without it the shares would be expected too high.
    """
    expected = np.concatenate([model.expected(signals, device)
                               for (signals, _), device in zip(tasks, devices, strict=True)])
    regrets = np.maximum(np.concatenate([regret for _, regret in tasks]), 0.0)
    factors = regrets / expected
    weights = np.concatenate([np.full(len(regret), 1 / len(regret)) for _, regret in tasks])
    order = np.argsort(factors)
    reached = np.cumsum(weights[order]) / (len(tasks) + 1)
    levels = np.linspace(0.0, 1.0, LEVELS)
    ranks = np.minimum(np.searchsorted(reached, levels - 1e-9), len(factors) - 1)
    quantiles = np.minimum(factors[order][ranks], LARGEST_FACTOR / MOST_SCALED)
    observed, low, high = float(np.average(np.exp(-regrets), weights=weights)), 1 / MOST_SCALED, MOST_SCALED
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        shares = np.average(_mean_shares(np.exp(-np.outer(expected, middle * quantiles))), weights=weights)
        low, high = (middle, high) if shares > observed else (low, middle)
    return tuple(((low + high) / 2 * quantiles).tolist())


def _mean_shares(shares: Floats) -> Floats:
    """The integral over the quantiles of shares (candidate, level): (candidate,)."""
    means: Floats = (shares[:, 1:] + shares[:, :-1]).mean(axis=1) / 2
    return means
