"""SoakContest: the winners of all runs of a problem, measured together on the quiet machine.

Every configuration takes part twice. The two times of one configuration, from the same rounds and the same builds, say
how far times differ that should be equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.common.report import Row
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.batches import compare_batch
from seqtune.tuner.measuring.comparison import typical
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import DEFAULTS

BUILDS = 5  # the median of five ignores two unlucky builds
ROUNDS = 15  # of a build, as in a contest of the tuner
NOISE = 0.05  # least bound of what counts as noise: times of one kernel in two runs of seqtune differ by up to 5 %
PERCENTILE = 95  # of the differences between two times of one configuration


def winner_of(row: Row) -> Configuration | None:
    """The winner of a row of tuning; None if nothing ran."""
    winner = row["winner"]
    return None if winner is None else Configuration.of(winner["kernel"], winner["settings"])


def hold(runner: Runner, problem: Problem, configurations: Sequence[Configuration]) -> list[tuple[float, float]]:
    """Measure each configuration twice in the same rounds; return its two times in seconds, infinite if it failed."""
    entries, builds = [*configurations, *configurations], list[list[float]]()
    for seed in range(BUILDS):
        runner.close()  # a new worker: kernels are compiled and buffers allocated again
        measured = compare_batch(runner, problem, entries, ROUNDS, DEFAULTS, seed)
        builds.append([measurement.seconds for measurement in measured])
    times = typical(dict(enumerate(zip(*builds, strict=True))))
    return [(times[index], times[len(configurations) + index]) for index in range(len(configurations))]


def difference_of(rows: Sequence[Row]) -> float:
    """The percentile of the differences between the two times of a configuration, as a share of the time."""
    logs = [abs(math.log(second / first)) for row in rows for first, second in row["times"]]
    return math.expm1(float(np.percentile(logs, PERCENTILE))) if logs else 0.0


def noise_of(rows: Sequence[Row]) -> float:
    """The bound of noise, as a share of the time."""
    return max(NOISE, difference_of(rows))


def time_of(row: Row, winner: Mapping[str, object]) -> float:
    """The time of a winner in the contest of its problem, the mean of its two times."""
    first, second = row["times"][row["winners"].index(winner)]
    return (float(first) + float(second)) / 2
