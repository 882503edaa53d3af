"""Ranker: boosted trees, small enough for a checkpoint, that order the proposals of the translator's beam.

The translator selects a few good configurations among many thousands. The trees are better at ordering these few, since
they see each configuration whole, with all derived quantities. A proposal's probability is multiplied by
exp(-slowness / TAU) (see `seqtune.predictor.proposing`); where the trees predict equal times, the translator
decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.features import FeatureList

from .cost_trees import Trees
from .feature_table import feature_table
from .forest import Forest, read_arrays, read_forest

PROPOSALS = 16  # number of the beam's proposals that are ordered; 32 gain 0.0006 in share and cost more time
TAU = 0.01  # 1 % slower is e times less probable; half of it or twice as much gives about the same


@dataclass(frozen=True, eq=False)
class Ranker:
    """The number of features and the forests of each kernel; the mean of its forests is the prediction.

    `listed` says which features the forests were fitted with.
    """

    features: Mapping[str, int]
    forests: Mapping[str, tuple[Forest, ...]]
    listed: FeatureList = "ratios"

    @classmethod
    def of(cls, trees: Trees) -> Ranker:
        """Make a ranker from fitted trees."""
        return cls({name: models[0].num_features() for name, models in trees.models.items()},
                   {name: tuple(Forest.of(model, 1) for model in models) for name, models in trees.models.items()},
                   trees.options.features)

    @classmethod
    def read(cls, path: Path, about: Mapping[str, tuple[int, int]], listed: FeatureList = "ratios") -> Ranker:
        """Read a ranker from a file, whose content is checked. Raises CheckpointError.

        `about` maps a kernel's name to its number of features and its number of forests; `listed` names the features.
        """
        arrays = read_arrays(path)
        return cls({name: features for name, (features, _) in about.items()},
                   {name: tuple(read_forest(path, arrays, f"{name}/{number}/", 1, features) for number in range(count))
                    for name, (features, count) in about.items()}, listed)

    def split(self, count: int) -> tuple[Ranker, Ranker]:
        """Two rankers: one of the first `count` forests of each kernel, and one of the others, where there are any."""
        others = {name: forests[count:] for name, forests in self.forests.items() if len(forests) > count}
        return (Ranker(self.features, {name: forests[:count] for name, forests in self.forests.items()}, self.listed),
                Ranker(self.features, others, self.listed))

    @property
    def about(self) -> dict[str, tuple[int, int]]:
        """The argument `about` of `read`."""
        return {name: (self.features[name], len(forests)) for name, forests in self.forests.items()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays to write to a safetensors file for `read`."""
        return {f"{name}/{number}/{part}": array for name, forests in self.forests.items()
                for number, forest in enumerate(forests) for part, array in forest.arrays().items()}

    def slowness(self, task: Task, numbers: Numbers) -> NDArray[np.float64]:
        """Predict log(time / best time) of configurations, given by their numbers: (configuration,).

        It is NaN for a kernel without trees. Raises CheckpointError for trees with other features.
        """
        return np.asarray(self.members(task, numbers).mean(axis=1, dtype=np.float64))

    def members(self, task: Task, numbers: Numbers) -> NDArray[np.float32]:
        """Predict with each forest of the ensemble, of which `slowness` is the mean: (configuration, member)."""
        return self.members_of([task], [numbers])[0]

    def members_of(self, tasks: Sequence[Task], numbers: Sequence[Numbers]) -> list[NDArray[np.float32]]:
        """Predict as `members` does, for configurations of several tasks: the rows of a kernel descend together."""
        largest = max(map(len, self.forests.values()), default=1)
        predicted = [np.full((len(part), largest), np.nan, np.float32) for part in numbers]
        tables: dict[str, list[tuple[int, Numbers, NDArray[np.float32]]]] = {}
        for number, task in enumerate(tasks):
            for space, part in task.parts():
                name = space.kernel.name
                indices = ((numbers[number] >= part.start) & (numbers[number] < part.stop)).nonzero()[0]
                if len(indices) and name in self.forests:
                    rows = numbers[number][indices] - part.start
                    table = feature_table(space, rows, self.listed)
                    if table.shape[1] != self.features[name]:
                        raise CheckpointError(
                            f"the checkpoint's trees of {name} have {self.features[name]} features, this version "
                            f"computes {table.shape[1]}: train the checkpoint again")
                    tables.setdefault(name, []).append((number, indices, table))
        for name, parts in tables.items():
            forests, rows = self.forests[name], np.concatenate([table for _, _, table in parts])
            scores = np.concatenate([forest.margins(rows) for forest in forests], axis=1)
            if len(forests) < largest:
                scores = np.repeat(scores.mean(axis=1, keepdims=True), largest, axis=1)
            begin = 0
            for number, indices, table in parts:
                predicted[number][indices] = scores[begin:begin + len(table)]
                begin += len(table)
        return predicted
