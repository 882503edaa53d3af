"""Evaluation: the share of the best known speed that methods reach without measurements and with a few.

Methods are compared on held-out problems and fitted to the training part only. Times come from the data set, so a
method chooses among the measured configurations of a problem. With `measure` the evaluation is live instead: whatever
any method proposes, the best recorded configurations, the safe default and a random sample of the space are measured
together in one contest, so that a configuration has the same time for every method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from seqtune.data.machines import device_labels
from seqtune.data.measured_tasks import Data, counted, measured_tasks
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import Floats, MeasuredTask, Task
from seqtune.tuner.measuring.compared_times import ComparedTimes, compare_all, retest_log_share
from seqtune.tuner.measuring.runner import Runner

from ...checkpoint_parts import parts_of
from ...predictors import Predictor
from ...trees.cost_trees import Trees, TreesOptions
from .baselines import ANALYTIC, BASELINES, random_log_share
from .shares import OURS, EvaluationRow, Outcome, rows

METHODS_OF_GPUS = (OURS, "transformer", "random", *BASELINES)
METHODS = tuple(name for name in METHODS_OF_GPUS if name != ANALYTIC)
OLD_NAMES = {"seq2seq": OURS}  # names of methods in earlier versions, still understood
COUNTS = (0, 3, 5)
SAMPLE = 100  # random configurations that a live evaluation measures for each problem, to know the best time
RECORDED = 8  # best recorded configurations that a live evaluation measures, too; the best one's record may be luck

Measure = Callable[[Problem, Device, Sequence[Configuration]], ComparedTimes]
OnSkip = Callable[[Problem, str], None]  # receives a problem on which nothing ran, and the reason


class LiveContest:
    """Holds the contests of live evaluations on one device; every build begins with a new worker."""

    def __init__(self, device: Device, progress: Say, runner: Runner | None = None) -> None:
        self.runner = Runner(device) if runner is None else runner
        self.progress = progress

    def __enter__(self) -> LiveContest:
        return self

    def __exit__(self, *error: object) -> None:
        self.runner.close()

    def __call__(self, problem: Problem, device: Device, proposals: Sequence[Configuration]) -> ComparedTimes:
        self.progress(f"{problem.brief()}: a first look at {len(proposals)} configurations")
        return compare_all(self.runner, problem, proposals, renew=self.runner.close, progress=self.progress)


def evaluate(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, sample: int = SAMPLE, measure: Measure | None = None,
             queries: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Say = silent) -> list[EvaluationRow]:
    """Evaluate methods: a row for every device, method and number of measured proposals.

    A live evaluation uses `queries` (by default the held-out problems) and leaves out those on which nothing runs.
    """
    return rows(outcomes(data, checkpoint, methods, counts, sample, measure, queries, on_skip, progress))


def outcomes(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, sample: int = SAMPLE, measure: Measure | None = None,
             queries: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Say = silent) -> list[Outcome]:
    """Evaluate methods as `evaluate` does: the outcome of every problem, of which `rows` makes the table."""
    progress("reading the data set")
    training, held_out = measured_tasks(data, held_out=False), measured_tasks(data, held_out=True)
    proposers = fitted(training, checkpoint, methods, progress)
    if measure is not None:
        if queries is None:
            queries = [(measured.problem, measured.device) for measured in held_out]
        recorded = {(measured.problem.key, measured.device.key): measured for measured in (*training, *held_out)}
        live: list[Outcome] = []
        failed: SeqtuneError | None = None
        for problem, device in queries:
            try:
                known = recorded.get((problem.key, device.key))
                live.append(live_outcome(problem, device, proposers, methods, counts, measure, sample, known))
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise  # a misuse, or a device that cannot be opened
                failed = error
                if on_skip is not None:
                    on_skip(problem, str(error))
        if failed is not None and not live:
            raise failed
        return live
    if not held_out:
        raise MisuseError("the data set holds out no problem that a kernel here solves; nothing to evaluate on "
                          "(seqtune export --hold-out PROBLEMS marks problems that no model learns from)")
    replayed: list[Outcome] = []
    labels = device_labels(measured.device for measured in held_out)
    for number, measured in enumerate(held_out, start=1):
        progress(f"problem {number} of {len(held_out)}: {measured.problem.brief()} on {measured.device.name}")
        outcome = _replayed(measured, proposers, methods, counts)
        replayed.append(replace(outcome, device=labels[measured.device.key]))
    return replayed


def evaluate_tasks(held_out: Sequence[MeasuredTask], checkpoint: Predictor,
                   counts: Sequence[int] = COUNTS, before_each: Callable[[], object] = lambda: None) -> list[Outcome]:
    """Evaluate only the checkpoint on these tasks, of which there may be none.

    `before_each` is called before each task; what it raises ends the evaluation.
    """
    return replayed(held_out, {OURS: checkpoint}, [OURS], counts, before_each)


def replayed(held_out: Sequence[MeasuredTask], predictors: Mapping[str, Predictor], methods: Sequence[str],
             counts: Sequence[int] = COUNTS, before_each: Callable[[], object] = lambda: None) -> list[Outcome]:
    """Evaluate methods on recorded times; each has a predictor, only `random` needs none. Devices have labels."""
    labels = device_labels(measured.device for measured in held_out)
    outcomes = []
    for measured in held_out:
        before_each()
        outcomes.append(replace(_replayed(measured, predictors, methods, counts), device=labels[measured.device.key]))
    return outcomes


def check_methods(methods: Sequence[str]) -> None:
    """Raise MisuseError for a name that is not a method."""
    for name in methods:
        if name not in METHODS_OF_GPUS:
            raise MisuseError(f"no method {name!r:.40}; there are {', '.join(METHODS_OF_GPUS)}")


def fitted(training: Sequence[MeasuredTask], checkpoint: Predictor | None, methods: Sequence[str],
           progress: Say = silent,
           options: TreesOptions | None = None) -> dict[str, Predictor]:
    """Fit the methods to measured training tasks; return them by name. `random` is not fitted and is left out.

    The method `trees` is the trees of the checkpoint; trees (with `options`) are fitted for it only if the checkpoint
    has none.
    """
    check_methods(methods)
    trees = cache(lambda: Trees(training, options))  # two methods may use them
    parts = parts_of(checkpoint)
    predictors: dict[str, Predictor] = {}
    for name in methods:
        if name == OURS:
            if checkpoint is None:
                raise MisuseError(f"{name} needs a checkpoint")
            predictors[name] = checkpoint
        elif name in parts:
            predictors[name] = parts[name]
        elif name == "transformer":
            raise MisuseError(f"{name} needs a checkpoint that was trained on measured times")
        elif name != "random":
            progress(f"fitting {name} to {len(training)} training tasks")
            predictors[name] = BASELINES[name].fit(training, trees)
    return predictors


def _replayed(measured: MeasuredTask, proposers: Mapping[str, Predictor], methods: Sequence[str],
              counts: Sequence[int]) -> Outcome:
    left_out = int((~measured.known).sum())
    measured = measured.measured_only()
    most = max(1, *counts)
    times = {name: [measured.time(configuration) for configuration in _proposed(method, measured.task, most)]
             for name, method in proposers.items()}
    default = measured.time(measured.task.default)
    return _outcome(measured.problem, measured.device, times, default, measured.seconds, measured.best, methods, counts,
                    left_out, _retest(measured))


def _retest(measured: MeasuredTask) -> float | None:
    """The log share of an oracle on a re-test, from the configurations that ran in every recorded build."""
    if measured.builds is None:
        return None
    return retest_log_share(measured.builds[:, np.isfinite(measured.builds).all(axis=0)])


def live_outcome(problem: Problem, device: Device, proposers: Mapping[str, Predictor], methods: Sequence[str],
                 counts: Sequence[int], measure: Measure, sample: int,
                 recorded: MeasuredTask | None) -> Outcome:
    """The outcome of a contest. `recorded` are the times of the problem in the data set, if it has any.

    Raises SeqtuneError if no configuration ran.
    """
    task = Task.of(problem, device)
    most = max(1, *counts)
    proposals = {name: _proposed(method, task, most) for name, method in proposers.items()}
    safe = task.default
    drawn = _sample(task, sample)
    fastest = [] if recorded is None else recorded.fastest(RECORDED)
    wanted = list(dict.fromkeys([safe, *(proposal for ranked in proposals.values() for proposal in ranked),
                                 *(fast for fast in fastest if task.find(fast) is not None), *drawn]))
    contest = measure(problem, device, wanted)
    seconds, best = contest.seconds, contest.best
    if math.isinf(best):
        raise SeqtuneError(f"no configuration of {problem.brief()} ran on {device.name}")
    times = {name: [seconds[proposal] for proposal in ranked] for name, ranked in proposals.items()}
    return _outcome(problem, device, times, seconds[safe], np.array([seconds[sampled] for sampled in drawn]), best,
                    methods, counts, len(task) - len(wanted), contest.retest)


def _proposed(predictor: Predictor, task: Task, count: int) -> list[Configuration]:
    return [candidate.configuration for candidate in predictor.propose([task], count)[0]]


def _sample(task: Task, count: int) -> list[Configuration]:
    generator = np.random.default_rng(0)
    numbers = generator.choice(len(task), size=min(count, len(task)), replace=False)
    return [task[number] for number in numbers.tolist()]


def _outcome(problem: Problem, device: Device, times: Mapping[str, Sequence[float]], default: float, drawn: Floats,
             best: float, methods: Sequence[str], counts: Sequence[int], unmeasured: int,
             retest: float | None) -> Outcome:
    """The outcome from the `times` of each method's proposals in order; `drawn` are the times for `random`."""
    everything = np.concatenate([drawn, *times.values()])
    log_shares: dict[tuple[str, int], float] = {}
    for name in methods:
        for count in counts:
            if name == "random":
                log_share = random_log_share(best / counted(drawn, default, everything), max(1, count))
            else:
                tried = times[name][:max(1, count)] or [default]
                log_share = math.log(best / float(counted(tried, default, everything).min()))
            log_shares[name, count] = log_share
    return Outcome(problem.key, device.name, log_shares, unmeasured, retest)
