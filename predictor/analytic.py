"""AnalyticPredictor: orders a task's configurations by the analytic model's estimates; it needs no measurement.

It answers for GPUs where no shipped checkpoint knows a kernel of the task. Kernels that do not describe their tiles
(`product_tiles.CONTRACT`) have no estimate: their configurations follow those that have one, the default first.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from seqtune.errors import SeqtuneWarning
from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.analytic import estimates
from seqtune.tuner.cost_models.gpu_rates import missing_fact
from seqtune.tuner.cost_models.modes import order

from .candidate import Candidate
from .untrained import UntrainedPredictor

if TYPE_CHECKING:
    from .proposing import Evidence


class AnalyticPredictor(UntrainedPredictor):
    """The predictor that estimates times from data sheets; it has no state."""

    note = "estimated from data sheets by the analytic model; no measurement of this GPU was used"
    backends = BACKENDS

    def propose(self, tasks: Sequence[Task], count: int, evidence: Evidence | None = None) -> list[list[Candidate]]:
        """Propose the configurations with the shortest estimated times, distinct, the shortest first.

        The best of other modes (`tuner/cost_models/modes.py`) whose estimates are near follow the first one.
        """
        for device in {task.device for task in tasks if task.device.backend in self.backends}:
            if (missing := missing_fact(device)) is not None:
                warnings.warn(f"the analytic model has no estimate for {device.name}: {missing} is not known; the "
                              "default comes first", SeqtuneWarning, stacklevel=2)
        return [[Candidate(task[number]) for number in order(task, estimates(task), count).tolist()] for task in tasks]
