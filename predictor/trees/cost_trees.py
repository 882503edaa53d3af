"""Trees: boosted regression trees that score every configuration of a space.

They are a baseline, the teacher of the translator, and the ranker of its proposals. Each kernel family has one model
for all devices. It predicts log(time / best time of the problem) from the features of
`tuner/cost_models/features.py`. Where only the choices of another tuner are known, it predicts how unlikely they are,
in the same unit (`choice_rows`).

The measured rates of a device are drawn anew for every task and model (`machine_ratios.jittered`), so that no threshold
lies at the exact value that one device happened to have.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.say import Say, silent
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import ChosenTask
from seqtune.tuner.cost_models.features import FeatureList, Table, device_features, features, own_features
from seqtune.tuner.cost_models.machine_ratios import jittered
from seqtune.tuner.measuring.deadline import Deadline

from ..option_bounds import Count, Number, Positive, Share
from .choice_rows import NAT, ChoiceObjective, ChoiceRows, choice_rows
from .forest import WORST

if TYPE_CHECKING:
    import xgboost

    from seqtune.kernels.task import Floats, MeasuredTask

# Largest share of all weight that a leaf needs. XGBoost gives no value at all to a tree of less weight than that, so
# a kernel of which a few slow rows are known would count as the fastest. A tree has about SUBSAMPLE of the weight.
ROOT = 0.25
SUBSAMPLE = 0.8  # share of the rows that a tree is fitted to, so that trees differ
COLUMNS = 0.6  # share of the features that a tree sees, for the same reason


@dataclass(frozen=True, slots=True)
class TreesOptions:
    """The settings of the trees. Defaults were chosen on validation problems."""

    rounds: Count = 400  # trees; at the rate below, more change little
    depth: Count = 6  # allows interactions of a tile, two sizes, a vector width and registers; deeper trees were worse
    rate: Share = 0.06
    least_weight: Positive = 3.0  # minimum weight of a leaf, since times have a few percent of noise
    models: Count = 3  # trained with different seeds and averaged, which is better than one
    threads: Count = 2
    seed: Number = 0
    features: FeatureList = "ratios"


@dataclass(frozen=True, eq=False)
class _Fitting:
    """Rows of one space to fit to: features of configurations, those of the device for each model, and targets."""

    own: Table
    by_model: Sequence[Table]
    target: Floats | ChoiceRows


class Trees:
    """Trees fitted to the measured configurations, or the choices, of some tasks.

    `before` has boosters for some kernel families, `options.models` of each; `added` further trees continue each one.
    At the deadline every booster has at least one tree, and those that are not complete end. `progress` receives a line
    for each kernel family.
    """

    def __init__(self, fitting: Sequence[MeasuredTask | ChosenTask], options: TreesOptions | None = None,
                 before: Mapping[str, Sequence[xgboost.Booster]] | None = None, added: int = 0,
                 deadline: Deadline | None = None, progress: Say = silent) -> None:
        self.options = options or TreesOptions()
        self._deadline = Deadline() if deadline is None else deadline
        before = before or {}
        kernels: dict[str, list[_Fitting]] = {}
        for measured in fitting:
            if isinstance(measured, ChosenTask):
                for chosen in choice_rows(measured, self.options.seed):
                    kernels.setdefault(chosen.space.kernel.name, []).append(
                        self._rows(chosen.space.at(chosen.rows), chosen))
                continue
            ratios = np.minimum(np.log(measured.seconds / measured.best), WORST)
            for space, part in measured.task.parts():
                rows = ~np.isnan(ratios[part])  # the measured ones
                if rows.any():
                    kernels.setdefault(space.kernel.name, []).append(
                        self._rows(space if rows.all() else space.only(rows), ratios[part][rows]))
        self.models = {name: list(boosters) for name, boosters in before.items()}
        for number, (name, parts) in enumerate(kernels.items(), 1):
            count = sum(len(part.own) for part in parts)
            progress(f"growing trees: {name}, {count:,} rows ({number} of {len(kernels)})")
            self.models[name] = self._fit(parts, before.get(name), added)

    def _rows(self, space: SearchSpace, target: Floats | ChoiceRows) -> _Fitting:
        """The rows to fit to, all of a space, with device features of rates that are drawn for each model."""
        options, columns = self.options, space.columns()
        by_model: list[Table] = []
        for model in range(options.models):
            draw = np.random.default_rng([options.seed, model, zlib.crc32(
                f"{space.problem.key} {space.device.key}".encode())])
            device = jittered(space.device, draw)
            by_model.append(device_features(
                space, columns, device if options.features == "ratios" else space.device, options.features))
        return _Fitting(own_features(space, columns), by_model, target)

    def _fit(self, parts: Sequence[_Fitting], before: Sequence[xgboost.Booster] | None,
             added: int) -> list[xgboost.Booster]:
        from seqtune.tuner.cost_models.boosting import Boosting

        options = self.options
        choices = [part for part in parts if isinstance(part.target, ChoiceRows)]
        parts = [*(part for part in parts if not isinstance(part.target, ChoiceRows)), *choices]
        target = np.concatenate([part.target for part in parts if not isinstance(part.target, ChoiceRows)]
                                or [np.empty(0)])
        own = np.concatenate([part.own for part in parts])
        weights = np.exp(-target)  # best / time: accuracy among fast configurations matters
        objective = ChoiceObjective(target, weights, [part.target for part in choices
                                                      if isinstance(part.target, ChoiceRows)]) if choices else None
        scale = 1 / NAT**2 if choices else 1.0  # of the second derivatives
        least = options.least_weight * scale if choices else min(options.least_weight, ROOT * float(weights.sum()))
        boosters: list[xgboost.Booster] = []
        for model in range(options.models):
            boosting = Boosting("reg:squarederror", options.rounds if before is None else added, options.depth,
                                options.rate, SUBSAMPLE, COLUMNS, least, 256,
                                options.threads, options.seed + model, {"base_score": 0.0, "reg_lambda": scale})
            rows = np.hstack([own, np.concatenate([part.by_model[model] for part in parts])])
            labels, importance = (target, weights) if objective is None else (np.zeros(len(rows)), None)
            boosters.append(boosting.grow(rows, labels, importance, None if before is None else before[model],
                                          lambda: self._deadline.is_over, objective))
        return boosters

    def knows(self, kernel: Kernel) -> bool:
        """Return whether the trees were fitted to measurements of the kernel family."""
        return kernel.name in self.models

    def predict(self, spaces: Sequence[SearchSpace]) -> Floats:
        """Predict log(time / best) for all rows of the spaces, one space after the other.

        The rows of a kernel family without measurements get the worst value.
        """
        return np.asarray(self.members(spaces).mean(axis=1, dtype=np.float64))

    def members(self, spaces: Sequence[SearchSpace]) -> NDArray[np.float32]:
        """Predict with each model of the ensemble, of which `predict` is the mean: (row, member)."""
        predictions: list[NDArray[np.float32]] = []
        for space in spaces:
            models = self.models.get(space.kernel.name)
            if models is None:
                predictions.append(np.full((len(space), self.options.models), WORST, np.float32))
                continue
            rows = features(space, listed=self.options.features)
            predictions.append(np.stack([model.inplace_predict(rows) for model in models], axis=1))
        return np.concatenate(predictions)

    def fill(self, measured: MeasuredTask) -> Floats:
        """Estimate time/best - 1 for every configuration of a task, (configuration,).

        Measured configurations keep their time. The others get the prediction, shifted so that it agrees with the
        task's measurements on average.
        """
        predicted = self.predict(measured.task.spaces)
        logs = np.log(measured.seconds)
        good = np.isfinite(logs)
        if good.any():
            weights = np.exp(-2 * np.minimum(predicted[good], WORST))  # fast ones count most
            predicted = predicted + np.average(logs[good] - predicted[good], weights=weights)
        filled = np.where(np.isnan(logs), predicted, logs)
        return np.asarray(np.expm1(np.minimum(filled - filled.min(), 20.0)))
