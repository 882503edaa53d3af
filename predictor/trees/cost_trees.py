"""Trees: boosted regression trees that score every configuration of a space, a baseline and the translator's teacher.

One model per kernel family, over all devices: it predicts log(time / best time of the problem) from parameter values,
the kernel's derived quantities, problem features, device facts, and how much each size wastes when it is cut into
pieces as long as a parameter says. Trees find no divisibility by themselves, so they are shown it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Kernel
from seqtune.kernels.operations.table import operation
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.encoding import encode_facts, tiling

if TYPE_CHECKING:
    import xgboost

    from seqtune.kernels.task import Floats, MeasuredTask

UNKNOWN = -1.0  # of a feature that a problem lacks: no true one is negative


@dataclass(frozen=True, slots=True)
class TreesOptions:
    """How the trees grow."""

    rounds: int = 400  # trees; with the rate below more changes little
    depth: int = 6  # interactions of a tile, two sizes, a vector width and registers; deeper ones did worse
    rate: float = 0.06
    subsample: float = 0.8
    columns: float = 0.6  # share of features seen by a tree
    least_weight: float = 3.0  # per leaf: rows are noisy by a few percent
    focus: float = 1.0  # a row weighs (best/time) ** focus: being right among the fast ones is what counts
    worst: float = 2.5  # log ratios are cut here: how bad the hopeless are is no use
    models: int = 3  # trained with different seeds and averaged: cheap, and better than one
    threads: int = 2
    seed: int = 0


def features(space: SearchSpace) -> NDArray[np.float32]:
    """(row, feature). Features are the same for all spaces of a kernel family."""
    count, problem = len(space), space.problem
    columns: list[NDArray[np.float32]] = []
    numeric: list[NDArray[np.float32]] = []
    found = space.columns()
    for place, parameter in enumerate(space.kernel.parameters):
        if all(isinstance(value, int) for value in parameter.values):
            columns.append(found[parameter.name].astype(np.float32))
            if max(int(value) for value in parameter.values) > 2:
                numeric.append(columns[-1])
        else:
            columns.append(space.rows[:, place].astype(np.float32))
    for name, _ in space.kernel.derived:
        if found[name].dtype.kind in "biuf":
            columns.append(found[name].astype(np.float32))
        else:  # a word
            columns.append(np.unique(found[name], return_inverse=True)[1].astype(np.float32))
    names = problem.names()
    fixed = encode_facts(problem, space.device, "vector_floats", UNKNOWN)
    for name in operation(problem.type).tiled_sizes:
        size = names.get(name)
        if isinstance(size, int) and size > 0:
            for values in numeric:
                tiles, padded = tiling(size, values)
                columns += [padded, tiles]
        else:
            columns += [np.full(count, UNKNOWN, np.float32)] * (2 * len(numeric))
    return np.column_stack([*columns, np.broadcast_to(np.array(fixed, np.float32), (count, len(fixed)))])


class Trees:
    """Fitted on the measured rows of the tasks given, and on nothing else."""

    def __init__(self, fitting: Sequence[MeasuredTask], options: TreesOptions | None = None) -> None:
        self.options = options or TreesOptions()
        kernels: dict[str, list[tuple[NDArray[np.float32], Floats]]] = {}
        for measured in fitting:
            ratios = np.minimum(np.log(measured.seconds / measured.best), self.options.worst)
            for space, part in measured.task.parts():
                known = ~np.isnan(ratios[part])
                if known.any():
                    kernels.setdefault(space.kernel.name, []).append((features(space)[known], ratios[part][known]))
        self.models = {name: self._fit(parts) for name, parts in kernels.items()}

    def _fit(self, parts: list[tuple[NDArray[np.float32], Floats]]) -> list[xgboost.Booster]:
        from seqtune.tuner.cost_models.boosting import Boosting

        options = self.options
        target = np.concatenate([ratio for _, ratio in parts])
        boosting = Boosting("reg:squarederror", options.rounds, options.depth, options.rate, options.subsample,
                            options.columns, options.least_weight, 256, options.threads, options.seed,
                            {"base_score": 0.0})
        return boosting.grow_several(np.concatenate([part for part, _ in parts]), target,
                                     np.exp(-options.focus * target), options.models)

    def knows(self, kernel: Kernel) -> bool:
        """Whether there were measurements of that kernel family."""
        return kernel.name in self.models

    def predict(self, spaces: Sequence[SearchSpace]) -> Floats:
        """log(time / best) over all rows of the spaces; families never seen come last."""
        found: list[Floats] = []
        for space in spaces:
            models = self.models.get(space.kernel.name)
            if models is None:
                found.append(np.full(len(space), self.options.worst))
                continue
            rows = features(space)
            found.append(np.mean([model.inplace_predict(rows) for model in models], axis=0, dtype=np.float64))
        return np.concatenate(found)

    def fill(self, measured: MeasuredTask, trust: float = 1.0) -> Floats:
        """time/best - 1 for every row: measured where it was (blended with the prediction where `trust` < 1),
        predicted elsewhere, the prediction shifted so that it agrees with the task's measurements on average."""
        predicted = self.predict(measured.task.spaces)
        logs = np.log(measured.seconds)
        good = np.isfinite(logs)
        if good.any():
            weights = np.exp(-2 * np.minimum(predicted[good], self.options.worst))  # agree among the fast ones
            logs = np.where(good, trust * logs + (1 - trust) * (predicted + np.average(
                logs[good] - predicted[good], weights=weights)), logs)
            predicted = predicted + np.average(np.log(measured.seconds[good]) - predicted[good], weights=weights)
        filled = np.where(np.isnan(logs), predicted, logs)
        return np.asarray(np.expm1(np.minimum(filled - filled.min(), 20.0)))
