"""Ranker: boosted trees, small enough for a checkpoint, that put in order what the translator's beam proposes.

The translator finds, among twenty thousand, the few configurations that are worth a look; which of these is fastest the
trees know better, since they see each one whole, with all that derives from it. A proposal's probability is multiplied
by exp(-predicted log(time / best) / TAU): where they find two alike, the translator decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import CheckpointError
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

from ..candidate import Candidate
from .cost_trees import Trees, features
from .forest import Forest, read_arrays, read_forest

PROPOSALS = 32  # of the beam, for the ranker to choose from; more change little
TAU = 0.01  # 1 % slower is e times less probable; anything from half to twice that serves as well


@dataclass(frozen=True, eq=False)
class Ranker:
    """By kernel the number of features that its trees know, and forests of which the mean counts."""

    features: Mapping[str, int]
    forests: Mapping[str, tuple[Forest, ...]]

    @classmethod
    def of(cls, trees: Trees) -> Ranker:
        """What fitted trees say."""
        return cls({name: models[0].num_features() for name, models in trees.models.items()},
                   {name: tuple(Forest.of(model, 1) for model in models) for name, models in trees.models.items()})

    @classmethod
    def read(cls, path: Path, about: Mapping[str, tuple[int, int]]) -> Ranker:
        """From a foreign file; `about` has each kernel's numbers of features and of forests. Raises CheckpointError."""
        arrays = read_arrays(path)
        return cls({name: features for name, (features, _) in about.items()},
                   {name: tuple(read_forest(path, arrays, f"{name}/{number}/", 1, features) for number in range(count))
                    for name, (features, count) in about.items()})

    @property
    def about(self) -> dict[str, tuple[int, int]]:
        """What `read` needs to know."""
        return {name: (self.features[name], len(forests)) for name, forests in self.forests.items()}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What `read` reads from a safetensors file."""
        return {f"{name}/{number}/{part}": array for name, forests in self.forests.items()
                for number, forest in enumerate(forests) for part, array in forest.arrays().items()}

    def reorder(self, task: Task, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The same candidates, most probable first; together they stay as probable as they were. Nothing changes where
        a kernel among them has no trees."""
        by_name = {space.kernel.name: space for space in task.spaces}
        kernels = [candidate.configuration.kernel for candidate in candidates]
        if not set(kernels) <= set(self.forests):
            return list(candidates)
        slowness = np.empty(len(candidates))
        for name in dict.fromkeys(kernels):
            mine = [place for place, kernel in enumerate(kernels) if kernel == name]
            slowness[mine] = self._slowness(by_name[name], [candidates[place] for place in mine])
        before = np.array([candidate.log_probability for candidate in candidates], np.float64)
        after = before - slowness / TAU
        after += np.logaddexp.reduce(before) - np.logaddexp.reduce(after)
        return [replace(candidates[place], log_probability=float(after[place]))
                for place in np.argsort(-after, kind="stable")]

    def _slowness(self, space: SearchSpace, candidates: Sequence[Candidate]) -> NDArray[np.float64]:
        """Predicted log(time / best)."""
        rows = np.array([space.row(candidate.configuration) for candidate in candidates])
        chosen = np.unique(rows)
        keep = np.zeros(len(space), np.bool_)
        keep[chosen] = True
        table = features(space.only(keep))
        name = space.kernel.name
        if table.shape[1] != self.features[name]:
            raise CheckpointError(f"the checkpoint's trees of {name} know {self.features[name]} features, there are "
                                  f"{table.shape[1]} here: it is of another version; train it anew")
        found = np.stack([forest.margins(table)[:, 0] for forest in self.forests[name]]).mean(axis=0, dtype=np.float64)
        return np.asarray(found)[np.searchsorted(chosen, rows)]
