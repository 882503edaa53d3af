"""Live evaluation: problems are searched on this machine, and the proposals of all methods compared in one contest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.common.evaluation import COUNTS
from benchmarks.common.finished import Finished
from benchmarks.common.progress import say
from seqtune.errors import KernelError, SeqtuneError
from seqtune.kernels.problem_sets.kinds import kind_of
from seqtune.predictor.learning.tasks.shares import OURS, Outcome

if TYPE_CHECKING:
    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.devices.device import Device
    from seqtune.kernels.problem import Problem
    from seqtune.kernels.task import MeasuredTask
    from seqtune.predictor.predictors import Predictor
    from seqtune.tuner.measuring.runner import Runner
    from seqtune.tuner.run.plan import TuningOptions

RANDOM = 24  # configurations that estimate random choices; the search has found the best time before


def searched(problem: Problem, device: Device, journal: Journal, runner: Runner, trials: int,
             options: TuningOptions | None = None) -> MeasuredTask:
    """Search a problem, or take its trials from the journal. Raises KernelError if no kernel solves it.

    Without options the search is local, or measures all configurations if they are few.
    """
    from seqtune.kernels.task import MeasuredTask, Task
    from seqtune.tuner.run.local_run import tune
    from seqtune.tuner.run.plan import Budget, Finals, TuningOptions

    task = Task.of(problem, device)
    strategy = "random" if len(task) <= trials else "local"
    tune(task, journal, runner, Budget(trials=trials), options or TuningOptions(strategy, finals=Finals(count=0)))
    return MeasuredTask.of_times(task, {
        configuration: measurement.seconds
        for configuration, measurement in journal.trials(problem, device, task.kernels).items()})


def live_outcomes(proposers: Callable[[], Mapping[str, Predictor]], methods: Sequence[str], device: Device,
                  problems: Sequence[Problem], depends_on: str, finished: Finished, journal: Journal,
                  trials: int) -> list[Outcome]:
    """Search each problem and compare the proposals of all methods in a contest; return what is finished.

    `proposers` are asked for when the first problem is evaluated; `depends_on` is the checksum of everything else that
    the outcomes depend on. Problems that no kernel solves, or on which nothing runs, are left out.
    """
    from seqtune.predictor.learning.tasks.evaluation import LiveContest, live_outcome

    outcomes = []
    with LiveContest(device, lambda step: None) as contest:
        def evaluated(problem: Problem) -> dict[str, object]:
            outcome = live_outcome(problem, device, proposers(), methods, COUNTS, contest, RANDOM,
                                   searched(problem, device, journal, contest.runner, trials))
            say(f"{kind_of(problem)}: {math.exp(outcome.log_shares[OURS, 0]):.3f}")
            return outcome.to_json()

        for problem in problems:
            try:
                content = finished.get((device.name, depends_on, problem.key), partial(evaluated, problem))
            except KernelError:
                continue
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise
                say(f"{problem.brief()} is left out: {error}")
                continue
            if content is not None:
                outcomes.append(Outcome.from_json(content))
    return outcomes
