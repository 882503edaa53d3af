"""Proof: the losses on fresh shapes, each of which is measured against the best that a search of its own finds.

The fastest trials of the search are compared in rounds with the dispatcher's members, so that the best time is no lucky
minimum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.predictor.dispatch.bound import Losses
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.matrix import WORST
from seqtune.tuner.measuring.deadline import OutOfTime
from seqtune.tuner.run.plan import TuningOptions

from ...errors import KernelError, UnpreparedError
from ..collecting.collection import SECONDS, SECONDS_ELSEWHERE
from ..collecting.stages import CONTEST
from .choosing import Question
from .measuring import TRIALS, Measuring

FINALISTS = 3  # fastest trials of a fresh shape that are compared with the members


def measure_fresh(question: Question, measuring: Measuring, problems: Sequence[Problem],
                  dispatcher: Dispatcher) -> list[Losses]:
    """Measure fresh shapes until the deadline. A shape that no kernel solves, or that cannot be made, is left out."""
    losses: list[Losses] = []
    if problems:
        minutes = len(problems) * (TRIALS + FINALISTS) * SECONDS.get(measuring.device.backend, SECONDS_ELSEWHERE) / 60
        question.progress(f"bound: {len(problems)} fresh shapes, each searched with {TRIALS} trials, take about "
                          f"{minutes:.2g} min, less what the journal has")
    for problem in problems:
        try:
            losses.append(_judged(question, measuring, Task.of(problem, measuring.device), dispatcher))
        except OutOfTime:
            break
        except (KernelError, UnpreparedError):
            continue
        question.progress(f"bound: {len(losses)} of {len(problems)} fresh shapes, the rule's member loses "
                          f"{100 * (1 - math.exp(-losses[-1].first)):.1f} % on {problem.brief()}")
    return losses


def _judged(question: Question, measuring: Measuring, task: Task, dispatcher: Dispatcher) -> Losses:
    """Find out how much the members lose on a fresh shape. Raises OutOfTime, UnpreparedError."""
    members = dispatcher.order(task.problem)[:2]
    times = contest(measuring, task, members, TuningOptions(
        seed=question.seed, seeds=partial(seeds_for, name=question.checkpoint),
        slowness=partial(slowness_for, name=question.checkpoint)))
    best = min(times.values())
    first, faster = (loss(times.get(each, math.inf), best)
                     for each in (next(iter(members), None), raced(measuring, task, members)))
    return Losses(first, faster, dispatcher.choose(task.problem).sure)


def contest(measuring: Measuring, task: Task, configurations: Sequence[Configuration],
            options: TuningOptions) -> Mapping[Configuration | None, float]:
    """Search a task, and compare its fastest trials with the valid ones of these configurations.

    The result is the seconds of all of them, of which at least one ran. Raises OutOfTime, UnpreparedError.
    """
    done = measuring.search(task, measuring.deadline.left, options)
    if done < min(TRIALS, len(task)) and measuring.deadline.is_over:
        raise OutOfTime("the time of the dispatch is over")
    trials = measuring.looks(task)
    valid = (each for each in configurations if task.find(each) is not None)
    compared = dict.fromkeys([*valid, *sorted(trials, key=lambda each: trials[each].seconds)[:FINALISTS]])
    measuring.compare(task, [*compared])
    seconds = measuring.seconds(task)
    times: dict[Configuration | None, float] = {each: float(seconds[task.number(each)]) for each in compared}
    if math.isinf(min(times.values(), default=math.inf)):
        raise UnpreparedError(f"nothing runs for {task.problem.brief()}")
    return times


def raced(measuring: Measuring, task: Task, members: Sequence[Configuration]) -> Configuration | None:
    """The member that is faster in one sample of each, the first of the latest comparison; None without members."""
    samples = {record.configuration: record.measurement.samples[0]
               for record in measuring.journal.records(task.problem, task.device.key, run=CONTEST)
               if record.measurement.samples}
    return min(members, key=lambda each: samples.get(each, math.inf), default=None)


def loss(seconds: float, best: float) -> float:
    """log(time / best time), from 0 to log(MISSING); infinite seconds are a failure."""
    return min(WORST, max(0.0, math.log(seconds / best))) if math.isfinite(seconds) else WORST
