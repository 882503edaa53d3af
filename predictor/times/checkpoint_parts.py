"""Parts of a checkpoint as predictors of their own: the transformer with its judge, and the trees.

The trees rank every valid configuration of a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from seqtune.kernels.task import Task

from ..candidate import Candidate
from ..model import Predictor
from ..trees.ranker import Ranker


class RankerAlone:
    """The trees of a checkpoint as a predictor that ranks every valid configuration."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """Return the `count` best-ranked configurations of each task."""
        orders = [np.argsort(self.ranker.slowness(task, np.arange(len(task))), kind="stable") for task in tasks]
        return [[Candidate(task[number]) for number in order[:count].tolist()]
                for task, order in zip(tasks, orders, strict=True)]


def parts_of(predictor: Predictor | None) -> Mapping[str, Predictor]:
    """The parts of a checkpoint by the names of their methods: `transformer` and, if it has trees, `trees`.

    There are none if the predictor is not a checkpoint of measured times.
    """
    if predictor is None:
        return {}
    from .checkpoint import Checkpoint

    if not isinstance(predictor, Checkpoint):
        return {}
    parts: dict[str, Predictor] = {"transformer": replace(predictor, ranker=None)}
    if predictor.ranker is not None:
        parts["trees"] = RankerAlone(predictor.ranker)
    return parts
