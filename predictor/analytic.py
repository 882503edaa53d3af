"""AnalyticPredictor: orders a task's configurations by the analytic model's estimates; it needs no measurement.

It answers for GPUs of which no checkpoint has measurements. Kernels that do not describe their tiles
(`product_tiles.CONTRACT`) have no estimate: their configurations follow those that have one, the default first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.modes import order

from .candidate import Candidate
from .untrained import UntrainedPredictor

if TYPE_CHECKING:
    from .proposing import Evidence


class AnalyticPredictor(UntrainedPredictor):
    """The predictor that estimates times from data sheets; it has no state."""

    backends = BACKENDS

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose the configurations with the shortest estimated times, distinct, the shortest first.

        The best of other modes (`tuner/cost_models/modes.py`) whose estimates are near follow the first one.
        """
        return [[Candidate(task[number]) for number in order(task, estimates(task), count).tolist()]
                for task in tasks]
