"""Campaign: one budget of trials for a whole set of problems; they go where they teach or improve most.

First one problem after the other is searched a little, knowing what was learned of those before it. Then each batch
goes to the problem whose search improved most of late, or was tried least, and its search is made anew with what is
known of all others by now.

A search is told its problem's own trials before it goes on, so a campaign is resumed by running it again: what the
journal holds is not measured again, and alone decides what comes next. That may be other trials than without the stop,
since a search that was made anew knows more, and a batch that was cut is not finished.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from seqtune.data.journal import Journal
from seqtune.errors import InterruptedTuning
from seqtune.kernels.task import Task

from .measuring.runner import Measurer
from .strategies.strategy import Strategy
from .tune import DEFAULT_OPTIONS, Budget, TuningOptions, TuningProgress, TuningResult, TuningRun

BATCH = 4  # trials between two decisions
FIRST = 0.5  # of the budget, in equal parts: what comes later knows more
RECENT = 6  # trials that tell whether a search still improves


def campaign(tasks: Iterable[Task], journal: Journal, measurer: Measurer, total: int,
             options: TuningOptions = DEFAULT_OPTIONS) -> Iterator[TuningResult]:
    """`total` trials for all of the tasks together, the journal's own included; then the finals, one by one.

    A repeated problem counts once. Raises InterruptedTuning on Ctrl-C, with all in the journal.
    """
    runs = [TuningRun(task, journal, measurer, options) for task in {task.problem: task for task in tasks}.values()]
    for run in runs:
        run.recall()
    spent = resumed = sum(run.done for run in runs)
    most = min(total, sum(len(run.task) for run in runs))

    def step(progress: TuningProgress) -> None:
        nonlocal spent
        spent += 1
        options.on_progress(replace(progress, done=spent, resumed=resumed, total=most, problems=len(runs)))

    part = FIRST * most / max(1, len(runs))
    batch = min(BATCH, options.batch, max(1, math.ceil(part)))

    def go_on(run: TuningRun, strategy: Strategy | None = None) -> Strategy:
        """A batch of that run."""
        strategy = run.strategy(None) if strategy is None else strategy
        count = min(batch, most - spent)
        run.search(strategy, Budget(run.done + count), count, step)
        return strategy

    try:
        for run in runs:
            strategy = None
            while spent < most and run.done < part and is_open(run):
                strategy = go_on(run, strategy)
        while spent < most and (left := [run for run in runs if is_open(run)]):
            go_on(max(left, key=lambda run: (promise(times(run)), -run.done)))
        for run in runs:
            yield run.result()
    except KeyboardInterrupt:
        raise InterruptedTuning(f"stopped after {spent} trials of {len(runs)} problems; all are in "
                                f"{journal.path}; run again to resume") from None


def is_open(run: TuningRun) -> bool:
    """Whether there may be anything left to try."""
    return run.done < len(run.task) and not run.ended


def times(run: TuningRun) -> list[float]:
    """The seconds of its trials, in measured order."""
    return [measurement.seconds for measurement in run.trials.values()]


def promise(seconds: Sequence[float]) -> float:
    """What a trial more may save, as log time: what each of the last ones did.

    Infinite where there are none, or they are the first that ran; nothing where none ever did.
    """
    last, least = min(RECENT, len(seconds) // 2), min(seconds, default=math.inf)
    if not last:
        return math.inf
    return math.log(min(seconds[:-last]) / least) / last if math.isfinite(least) else 0.0
