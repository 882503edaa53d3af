"""Parts of a checkpoint as predictors of their own: the transformer with its judge, and the trees.

The trees rank every valid configuration of a task. If the checkpoint was retrained, the part of the layer that answers
for a task counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from seqtune.kernels.task import Task

from .candidate import Candidate
from .mixture.mixture import UNLEARNED
from .model import Predictor
from .trees.ranker import Ranker

if TYPE_CHECKING:
    from .checkpoint import Checkpoint


class RankerAlone:
    """The trees of a checkpoint as a predictor that ranks every valid configuration."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Return the `count` best-ranked configurations of each task."""
        orders = [np.argsort(self.ranker.slowness(task, np.arange(len(task))), kind="stable") for task in tasks]
        return [[Candidate(task[number]) for number in order[:count].tolist()]
                for task, order in zip(tasks, orders, strict=True)]


class CheckpointTrees:
    """The trees of a checkpoint, all of whose layers have trees: each task is ranked by the layer that answers."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Return the `count` best-ranked configurations of each task."""
        return [self._trees(task).propose([task], count)[0] for task in tasks]

    def _trees(self, task: Task) -> RankerAlone:
        ranker = self.checkpoint.on(task.device, task.kernels).ranker
        assert ranker is not None
        return RankerAlone(ranker)


def parts_of(predictor: Predictor | None) -> Mapping[str, Predictor]:
    """The parts of a checkpoint by the names of their methods: `transformer` and, if it has trees, `trees`.

    There are none if the predictor is not a checkpoint of measured times.
    """
    if predictor is None:
        return {}
    from .checkpoint import Checkpoint

    if not isinstance(predictor, Checkpoint):
        return {}
    parts: dict[str, Predictor] = {"transformer": _without_trees(predictor)}
    if all(layer.ranker is not None for layer in predictor.layers):
        parts["trees"] = CheckpointTrees(predictor)
    return parts


def _without_trees(checkpoint: Checkpoint) -> Checkpoint:
    former = None if checkpoint.former is None else _without_trees(checkpoint.former)
    return replace(checkpoint, ranker=None, former=former, mixture=UNLEARNED)
