"""Ranker: boosted trees, small enough for a checkpoint, that order the proposals of the translator's beam.

The translator selects a few good configurations among many thousands. The trees are better at ordering these few, since
they see each configuration whole, with all derived quantities. They are an expert: see `seqtune.predictor.proposing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError
from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task
from seqtune.tuner.cost_models.features import FeatureList, feature_table

from .forest import Forest, read_arrays, read_forest

if TYPE_CHECKING:
    from .cost_trees import Trees

PROPOSALS = 16  # number of the beam's proposals that are ordered; 32 gain 0.0006 in share and cost more time
TAU = 0.01  # 1 % slower is e times less probable


@dataclass(frozen=True, eq=False)
class Ranker:
    """The number of features and the forests of each kernel; the mean of its forests is the prediction.

    `listed` says which features the forests were fitted with.
    """

    name: ClassVar[str] = "trees"
    is_relative: ClassVar[bool] = False

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
        predicted = np.full((len(numbers), max(map(len, self.forests.values()), default=1)), np.nan, np.float32)
        for space, own, rows in task.by_space(numbers):
            name = space.kernel.name
            if name not in self.forests:
                continue
            table = feature_table(space, rows, self.listed)
            if table.shape[1] != self.features[name]:
                raise CheckpointError(
                    f"the checkpoint's trees of {name} have {self.features[name]} features, this version computes "
                    f"{table.shape[1]}: train the checkpoint again")
            scores = np.concatenate([forest.margins(table) for forest in self.forests[name]], axis=1)
            predicted[own] = scores if scores.shape[1] == predicted.shape[1] else scores.mean(axis=1, keepdims=True)
        return predicted

    def opinion(self, task: Task, numbers: Numbers) -> Floats | None:
        """The members' slowness, of 64 bits, as an `Expert` gives it; None if a kernel has no trees."""
        members = self.members(task, numbers)
        return None if np.isnan(members).any() else members.astype(np.float64)

    def first(self, task: Task, count: int) -> Numbers:
        """The numbers of the `count` configurations of the whole task that the trees expect to be fastest, in order."""
        return np.argsort(self.slowness(task, np.arange(len(task))), kind="stable")[:count]
