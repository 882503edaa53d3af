"""Experience: what a journal says of other problems on the same device, for strategies that learn from elsewhere.

So a campaign over many problems shares what it learns. A search that is resumed knows what it knew when it began: what
was measured since the problem's own first trial is left out, and the same command asks for the same again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from seqtune.data.journal import Journal
from seqtune.errors import KernelError
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.kernels.union import Past, Union

MOST_PROBLEMS = 12  # the nearest teach most, and trees of more only take longer
LEAST_TRIALS = 4  # of a problem: fewer don't tell what is fast


def experience(journal: Journal, spaces: Sequence[SearchSpace], until: float | None = None) -> tuple[Past, ...]:
    """What the nearest other problems' trials say, with today's kernels and toolchain; nearest first.

    `until` is a time as in `Record.when`; None: when the problem's own first trial was made.
    """
    problem, device = spaces[0].problem, spaces[0].device
    kernels = [space.kernel for space in spaces]
    if until is None:
        until = min((record.when for record in journal.trial_records(problem, device, kernels)), default=math.inf)
    found: list[Past] = []
    others = [one for one in journal.problems() if one.type == problem.type and one != problem]
    for other in sorted(others, key=lambda one: (distance(one, problem), one.key)):
        if len(found) == MOST_PROBLEMS:
            break
        times = {record.configuration: record.measurement.seconds
                 for record in journal.trial_records(other, device, kernels) if record.when < until}
        if len(times) < LEAST_TRIALS:
            continue
        try:
            union = Union(spaces_for(other, device, kernels))
        except KernelError:
            continue
        seconds = np.full(len(union), np.nan)
        for configuration, time in times.items():
            number = union.number(configuration)
            if number is not None:
                seconds[number] = time
        found.append(Past(union.spaces, seconds))
    return tuple(found)
