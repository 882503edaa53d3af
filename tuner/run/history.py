"""History: the journal's trials of other problems on the same device, for strategies that learn from them.

With it the searches of a run learn from each other. A resumed search gets the history that it had when it began:
trials of other problems after the problem's own first trial are left out, so the same command proposes the same
configurations again.
"""

from __future__ import annotations

import math

from seqtune.data.journal.journal import Journal
from seqtune.errors import KernelError
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.task import MeasuredTask, Task

MOST_PROBLEMS = 12  # the nearest ones matter most; more only make fitting the trees slower
LEAST_TRIALS = 4  # of a problem; fewer do not show which configurations are fast


def history(journal: Journal, task: Task) -> tuple[MeasuredTask, ...]:
    """The trials of the nearest other problems, with the current kernels and toolchain; the nearest problem first.

    Only trials before the problem's own first trial count.
    """
    problem, device, kernels = task.problem, task.device, task.kernels
    until = min((record.when for record in journal.trial_records(problem, device, kernels)), default=math.inf)
    nearest: list[MeasuredTask] = []
    others = [other for other in journal.problems() if other.type == problem.type and other != problem]
    for other in sorted(others, key=lambda other: (distance(other, problem), other.key)):
        if len(nearest) == MOST_PROBLEMS:
            break
        times = {record.configuration: record.measurement.seconds
                 for record in journal.trial_records(other, device, kernels) if record.when < until}
        if len(times) < LEAST_TRIALS:
            continue
        try:
            other_task = Task.of(other, device, kernels)
        except KernelError:
            continue
        nearest.append(MeasuredTask.of_times(other_task, times))
    return tuple(nearest)
