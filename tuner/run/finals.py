"""Finals: the fastest configurations of a search are measured again, interleaved with the safe default.

The least of thousands of noisy times is too optimistic, so trials only choose the finalists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..measuring.comparison import typical
from ..measuring.deadline import Deadline, OutOfTime
from ..measuring.runner import Measurer, compare_batch
from ..measuring.timing import Options
from .plan import Finals

SLOWED = 2.0  # factor on the time of a kernel whose two threads share one core


def finalists_of(trials: Mapping[Configuration, Measurement], default: Configuration,
                 count: int) -> list[Configuration]:
    """The configurations that are measured again at the end: the `count` fastest that are correct, and the default.

    A trial all of whose samples were disturbed may be SLOWED times as fast as it was measured. If that could make it as
    fast as the others, it is measured again, too, up to `count` of them: in the finals a slow CPU is slow for all.
    """
    order = sorted((configuration for configuration, trial in trials.items() if math.isfinite(trial.seconds)),
                   key=lambda configuration: trials[configuration].seconds)
    calm = [configuration for configuration in order if not _is_doubtful(trials[configuration])][:count]
    bar = trials[calm[-1]].seconds if len(calm) == count else math.inf
    doubtful = [configuration for configuration in order
                if _is_doubtful(trials[configuration]) and trials[configuration].seconds <= SLOWED * bar]
    return list(dict.fromkeys([*calm, *doubtful[:count], default]))


def _is_doubtful(trial: Measurement) -> bool:
    return trial.disturbed >= len(trial.samples)


def measure_finals(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], finals: Finals,
                   options: Options, deadline: Deadline | None = None) -> dict[Configuration, Measurement]:
    """Measure the finalists in rounds; where times are noisy and time is left, again with more rounds.

    The result is empty if there is no time for a single round before the hard end of the `deadline`.
    """
    deadline = Deadline() if deadline is None else deadline
    began = deadline.elapsed
    try:
        measured = _compared(measurer, problem, finalists, finals.rounds, options, deadline)
    except OutOfTime:
        return {}
    if not are_noisy(measured, finals) or deadline.left < deadline.elapsed - began:
        return measured
    with suppress(OutOfTime):
        measured = _compared(measurer, problem, finalists, finals.more_rounds, options, deadline)
    return measured


def are_noisy(measured: Mapping[Configuration, Measurement], finals: Finals) -> bool:
    """Whether the winner's samples spread so much that the finals are measured again, with more rounds."""
    winner = fastest_finalist(measured)
    return winner is not None and measured[winner].spread >= finals.noisy


def _compared(measurer: Measurer, problem: Problem, finalists: Sequence[Configuration], rounds: int,
              options: Options, deadline: Deadline) -> dict[Configuration, Measurement]:
    limited = replace(options, planned=deadline.left, budget=deadline.hard.left)
    compared = compare_batch(measurer, problem, finalists, rounds, limited, options.order_seed)
    return dict(zip(finalists, compared, strict=True))


def seconds_of(measured: Mapping[Configuration, Measurement], paired: bool) -> dict[Configuration, float]:
    """The seconds of each: typical if the samples are `paired` by rounds, else the least; infinite for a failure."""
    typically = typical({configuration: measurement.samples for configuration, measurement in measured.items()
                         if measurement.status is Status.CORRECT}) if paired else {}
    return {configuration: typically.get(configuration, measurement.seconds)
            for configuration, measurement in measured.items()}


def fastest_finalist(measured: Mapping[Configuration, Measurement], paired: bool = True) -> Configuration | None:
    """The winner of the finals; None if none was correct."""
    seconds = seconds_of(measured, paired)
    fastest = min(seconds, key=seconds.__getitem__, default=None)
    return fastest if fastest is not None and math.isfinite(seconds[fastest]) else None
