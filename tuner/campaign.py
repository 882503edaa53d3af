"""Campaign: one budget of trials for a whole set of problems, spent where a search improves most.

In the first phase each problem in turn is searched for an equal part of half the budget, with the history of the
problems before it. Then each batch goes to the problem whose search improved most recently, or had the fewest trials;
its search is built again, with the history of all other problems so far.

A search gets the trials of its problem before it continues, so running a campaign again resumes it. A resumed campaign
depends only on the journal, and measures nothing that is in the journal. It may try different configurations than an
uninterrupted one, because rebuilt searches know more and an interrupted batch is not completed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from seqtune.data.journal import Journal
from seqtune.errors import InterruptedTuning, UnpreparedError
from seqtune.kernels.task import Task

from .measuring.runner import Measurer
from .search import Search
from .strategies.strategy import Strategy
from .tune import DEFAULT_OPTIONS, Budget, OnSkip, TuningOptions, TuningProgress, TuningResult, TuningRun

BATCH = 4  # trials of a problem before the next problem is chosen
FIRST = 0.5  # share of the budget that the first phase divides equally
RECENT = 6  # trials from which the expected gain of a search is estimated


def campaign(tasks: Iterable[Task], journal: Journal, measurer: Measurer, total: int,
             options: TuningOptions = DEFAULT_OPTIONS, on_skip: OnSkip | None = None) -> Iterator[TuningResult]:
    """Run `total` trials for all tasks together, including those in the journal; then yield the result of each task.

    A repeated problem counts once. Raises InterruptedTuning on Ctrl-C; every finished trial is then in the journal.
    `on_skip` is called with the reason for a problem that cannot be measured. Without it, UnpreparedError is raised.
    """
    runs = [TuningRun(task, journal, measurer, options) for task in {task.problem: task for task in tasks}.values()]
    for run in runs:
        run.recall()
    spent = resumed = sum(run.done for run in runs)
    yielded = 0  # runs whose results were yielded, or that have none
    skipped: list[TuningRun] = []
    limit = min(total, sum(len(run.task) for run in runs))

    def step(progress: TuningProgress) -> None:
        nonlocal spent
        spent += 1
        options.on_progress(replace(progress, done=spent, resumed=resumed, total=limit, problems=len(runs)))

    first_trials = FIRST * limit / max(1, len(runs))  # of each problem in the first phase
    batch = min(BATCH, options.batch, max(1, math.ceil(first_trials)))

    def search_batch(run: TuningRun, strategy: Strategy | None = None) -> Strategy:
        """Search one batch of a run; build a strategy if none is given, and return it."""
        strategy = run.strategy(None) if strategy is None else strategy
        count = min(batch, limit - spent)
        try:
            run.search(strategy, Budget(run.done + count), count, step)
        except UnpreparedError as error:
            skip(run, error)
        return strategy

    def skip(run: TuningRun, error: UnpreparedError) -> None:
        """Try the run no more, and have no result of it."""
        if on_skip is None:
            raise error
        on_skip(run.task.problem, error)
        skipped.append(run)
        run.ended = True

    try:
        for run in runs:
            strategy = None
            while spent < limit and run.done < first_trials and is_open(run):
                strategy = search_batch(run, strategy)
        while spent < limit and (open_runs := [run for run in runs if is_open(run)]):
            search_batch(max(open_runs, key=lambda run: (expected_gain(times(run)), -run.done)))
        for run in runs:
            if run not in skipped:
                try:
                    yield run.result()
                except UnpreparedError as error:
                    skip(run, error)
            yielded += 1
    except KeyboardInterrupt:
        unfinished = [run.so_far() for run in runs[yielded:] if run not in skipped]
        raise InterruptedTuning(f"stopped after {spent} trials of {len(runs)} problems; all are in {journal.path}; run "
                                "again to resume", unfinished) from None


def is_open(run: Search) -> bool:
    """Whether the run may have configurations left to try."""
    return run.done < len(run.task) and not run.ended


def times(run: Search) -> list[float]:
    """The seconds of the run's trials, in the order of measurement."""
    return [measurement.seconds for measurement in run.trials.values()]


def expected_gain(seconds: Sequence[float]) -> float:
    """The expected gain of one more trial, in log time: the mean gain of the last `RECENT` trials.

    It is infinite with fewer than two trials, or if only the last ones succeeded, and 0 if every trial failed.
    """
    count, least = min(RECENT, len(seconds) // 2), min(seconds, default=math.inf)
    if not count:
        return math.inf
    return math.log(min(seconds[:-count]) / least) / count if math.isfinite(least) else 0.0
