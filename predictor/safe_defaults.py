"""SafeDefaults: answers for kernels that no shipped checkpoint was trained on, with their safe default."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqtune.kernels.task import Task

from .candidate import Candidate
from .untrained import UntrainedPredictor

if TYPE_CHECKING:
    from .proposing import Evidence


class SafeDefaults(UntrainedPredictor):
    """The safe default first, then the configurations that differ from it in the fewest parameters; no confidence."""

    note = ("no shipped checkpoint was trained on kernels of this operation, so a safe default answers; its share of "
            "the best speed is unknown (--verify measures, seqtune tune searches)")
    backends = ("llvm",)

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose `count` configurations around the default of each task, or all of them where there are fewer."""
        return [[Candidate(task[number]) for number in _around_default(task)[:count]] for task in tasks]


def _around_default(task: Task) -> list[int]:
    """All configurations by their numbers; among equally different ones, the values' order decides."""
    start = task.find(task.default)
    assert start is not None
    order: list[int] = np.argsort(task.differences(start, np.arange(len(task))), kind="stable").tolist()
    return order
