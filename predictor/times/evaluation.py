"""Evaluation: the share of the best known speed that methods reach without measurements and with a few.

Methods are compared on held-out problems and fitted to the training part only. Times come from the data set, so a
method chooses among the measured configurations of a problem. With `measure` the evaluation is live instead: proposals
and a random sample of the space are measured during the evaluation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache

import numpy as np

from seqtune.data.measured_tasks import Data, counted, measured_tasks
from seqtune.data.record import Measurement
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Floats, MeasuredTask, Task

from ..model import Predictor
from ..trees.cost_trees import Trees
from .baselines import BASELINES, random_log_share

METHODS = ("seq2seq", "random", *BASELINES)
COUNTS = (0, 3, 5)

Measure = Callable[[Problem, Device, Sequence[Configuration]], Sequence[Measurement]]
OnSkip = Callable[[Problem, str], None]  # receives a problem on which nothing ran, and the reason


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """A row of the table: a method on a device."""

    device: str
    method: str
    measured: int  # 0: the first proposal without measuring; n: the best of n measured proposals
    share: float  # geometric mean over problems of best known time / time of the choice
    problems: int
    low: float | None = None  # 95 % interval of seq2seq's share minus this method's, by a paired bootstrap of problems
    high: float | None = None
    worse: bool = False  # whether seq2seq is worse: the whole interval is below 0
    regret_ratio: float | None = None  # for seq2seq without measuring: (1 - share) / (1 - share of fixed)
    unmeasured: int = 0  # configurations of these problems that have no time, so that no method can choose them
    trained_on: int | None = None  # live only: problems that are, or nearly are, training problems of the data set

    def to_json(self) -> dict[str, object]:
        """The row as a flat JSON object; only live evaluations have `trained_on`."""
        return {name: value for name, value in asdict(self).items() if name != "trained_on" or value is not None}


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """The options of an evaluation."""

    sample: int = 100  # live: random configurations measured for each problem, to know the best time
    draws: int = 4000  # samples of the bootstrap; the interval's ends change by less than 0.001 between seeds
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of the methods on one problem: log shares by (method, measured)."""

    problem: str
    device: str
    log_shares: Mapping[tuple[str, int], float]
    unmeasured: int


def evaluate(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             queries: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Callable[[str], None] = lambda step: None) -> list[EvaluationRow]:
    """Evaluate methods: a row for every device, method and number of measured proposals.

    A live evaluation uses `queries` (by default the held-out problems) and leaves out those on which nothing runs.
    """
    return rows(outcomes(data, checkpoint, methods, counts, options, measure, queries, on_skip, progress), options)


def outcomes(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             queries: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Callable[[str], None] = lambda step: None) -> list[Outcome]:
    """Evaluate methods as `evaluate` does: the outcome of every problem, of which `rows` makes the table."""
    options = options or EvaluateOptions()
    progress("reading the data set")
    proposers = fitted(measured_tasks(data, held_out=False), checkpoint, methods, progress)
    if measure is not None:
        if queries is None:
            queries = [(measured.problem, measured.device) for measured in measured_tasks(data, held_out=True)]
        live: list[Outcome] = []
        failed: SeqtuneError | None = None
        for problem, device in queries:
            try:
                live.append(_live(problem, device, proposers, methods, counts, measure, options))
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise  # a misuse, or a device that cannot be opened
                failed = error
                if on_skip is not None:
                    on_skip(problem, str(error))
        if failed is not None and not live:
            raise failed
        return live
    held_out = measured_tasks(data, held_out=True)
    if not held_out:
        raise MisuseError("the data set holds out no problem that a kernel here solves; nothing to evaluate on")
    replayed: list[Outcome] = []
    for number, measured in enumerate(held_out, start=1):
        progress(f"problem {number} of {len(held_out)}: {measured.problem.brief()} on {measured.device.name}")
        replayed.append(_replayed(measured, proposers, methods, counts))
    return replayed


def judge(data: Data, checkpoint: Predictor, counts: Sequence[int] = COUNTS) -> list[Outcome]:
    """Evaluate only the checkpoint on the held-out problems, of which there may be none."""
    proposers: dict[str, Predictor] = {"seq2seq": checkpoint}
    return [_replayed(measured, proposers, ["seq2seq"], counts) for measured in measured_tasks(data, held_out=True)]


def check_methods(methods: Sequence[str]) -> None:
    """Raise MisuseError for a name that is not a method."""
    for name in methods:
        if name not in METHODS:
            raise MisuseError(f"no method {name!r:.40}; there are {', '.join(METHODS)}")


def fitted(training: Sequence[MeasuredTask], checkpoint: Predictor | None, methods: Sequence[str],
           progress: Callable[[str], None] = lambda step: None) -> dict[str, Predictor]:
    """Fit the methods to measured training tasks; return them by name. `random` is not fitted and is left out."""
    check_methods(methods)
    trees = cache(lambda: Trees(training))  # two methods use them
    predictors: dict[str, Predictor] = {}
    for name in methods:
        if name == "seq2seq":
            if checkpoint is None:
                raise MisuseError("seq2seq needs a checkpoint")
            predictors[name] = checkpoint
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
                    left_out)


def _live(problem: Problem, device: Device, proposers: Mapping[str, Predictor], methods: Sequence[str],
          counts: Sequence[int], measure: Measure, options: EvaluateOptions) -> Outcome:
    task = Task.of(problem, device)
    most = max(1, *counts)
    proposals = {name: _proposed(method, task, most) for name, method in proposers.items()}
    safe = task.default
    drawn = _sample(task, options.sample, options.seed)
    wanted = list(dict.fromkeys([safe, *(proposal for ranked in proposals.values() for proposal in ranked), *drawn]))
    seconds = {configuration: measurement.seconds
               for configuration, measurement in zip(wanted, measure(problem, device, wanted), strict=True)}
    best = min(seconds.values())
    if math.isinf(best):
        raise SeqtuneError(f"no configuration of {problem.brief()} ran on {device.name}")
    times = {name: [seconds[proposal] for proposal in ranked] for name, ranked in proposals.items()}
    return _outcome(problem, device, times, seconds[safe], np.array([seconds[sampled] for sampled in drawn]), best,
                    methods, counts, len(task) - len(wanted))


def _proposed(predictor: Predictor, task: Task, count: int) -> list[Configuration]:
    return [candidate.configuration for candidate in predictor.propose([task], count)[0]]


def _sample(task: Task, count: int, seed: int) -> list[Configuration]:
    generator = np.random.default_rng(seed)
    numbers = generator.choice(len(task), size=min(count, len(task)), replace=False)
    return [task[number] for number in numbers.tolist()]


def _outcome(problem: Problem, device: Device, times: Mapping[str, Sequence[float]], default: float, drawn: Floats,
             best: float, methods: Sequence[str], counts: Sequence[int], unmeasured: int) -> Outcome:
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
    return Outcome(problem.key, device.name, log_shares, unmeasured)


def rows(results: Sequence[Outcome], options: EvaluateOptions | None = None) -> list[EvaluationRow]:
    """The table of outcomes: geometric means by device, method and number, each compared with seq2seq's."""
    options = options or EvaluateOptions()
    table: list[EvaluationRow] = []
    for device in dict.fromkeys(outcome.device for outcome in results):
        on_device = [outcome for outcome in results if outcome.device == device]
        columns = {key: np.array([outcome.log_shares[key] for outcome in on_device])
                   for key in on_device[0].log_shares}
        unmeasured = sum(outcome.unmeasured for outcome in on_device)
        for (method, count), logs in columns.items():
            low = high = ratio = None
            if method == "seq2seq":
                if count == 0 and ("fixed", 0) in columns:
                    fixed_regret = -math.expm1(columns["fixed", 0].mean())
                    ratio = -math.expm1(logs.mean()) / fixed_regret if fixed_regret > 0 else None
            elif ("seq2seq", count) in columns:
                low, high = bootstrap(columns["seq2seq", count], logs, options.draws, options.seed)
            table.append(EvaluationRow(device, method, count, math.exp(logs.mean()), len(on_device), low, high,
                                       high is not None and high < 0, ratio, unmeasured))
    return table


def bootstrap(ours: Floats, theirs: Floats, draws: int, seed: int) -> tuple[float, float]:
    """The 95 % interval of the difference of the geometric means of two methods, from their log shares (problem,).

    The same problems are drawn for both methods.
    """
    chosen = np.random.default_rng(seed).integers(0, len(ours), (draws, len(ours)))
    difference = np.exp(ours[chosen].mean(axis=1)) - np.exp(theirs[chosen].mean(axis=1))
    low, high = np.quantile(difference, [0.025, 0.975])
    return float(low), float(high)
