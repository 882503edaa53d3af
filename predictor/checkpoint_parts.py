"""Parts of a checkpoint as predictors of their own: the transformer with its judge, and the trees.

The trees rank every valid configuration of a task. If the checkpoint was retrained, the part of the layer that answers
for a task counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seqtune.kernels.task import Task

from .candidate import Candidate
from .predictors import Predictor
from .trees.ranker import Ranker

if TYPE_CHECKING:
    from .checkpoint import Checkpoint


@dataclass(frozen=True)
class TreesAlone:
    """Trees as a predictor that ranks every valid configuration; `trees` gives those that answer for a task."""

    trees: Callable[[Task], Ranker]

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Return the `count` best-ranked configurations of each task."""
        return [[Candidate(task[number]) for number in self.trees(task).first(task, count).tolist()] for task in tasks]


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
        parts["trees"] = TreesAlone(lambda task: _trees(predictor, task))
    return parts


def _trees(checkpoint: Checkpoint, task: Task) -> Ranker:
    ranker = checkpoint.on(task.device, task.kernels).ranker
    assert ranker is not None
    return ranker


def _without_trees(checkpoint: Checkpoint) -> Checkpoint:
    former = None if checkpoint.former is None else _without_trees(checkpoint.former)
    return replace(checkpoint, ranker=None, processes=None, former=former)
