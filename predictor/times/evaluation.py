"""Evaluation: how close to the best known time the methods get, with no measurement and with a few, side by side.

Only held-out problems are judged; every method learns from the training part alone. Replayed from a data set, every
method chooses among the measured configurations of a problem (all of them, where the space was exhausted); `measure`
makes it live instead: what the methods propose is measured on the spot, with a random sample of the space.
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
OnSkip = Callable[[Problem, str], None]  # told of a problem on which nothing ran, and why


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a method on a device."""

    device: str
    method: str
    measured: int  # 0: the first proposal, unmeasured; n: the best of n measured proposals
    share: float  # geometric mean over problems of best known time / time of the pick
    problems: int
    low: float | None = None  # 95 % interval of seq2seq's share minus this method's, problems drawn again in pairs
    high: float | None = None
    worse: bool = False  # seq2seq is below this method: the whole interval is
    regret_ratio: float | None = None  # of seq2seq at 0: (1 - share) / (1 - share of fixed)
    unmeasured: int = 0  # configurations of these problems that nobody measured and no method could choose
    trained_on: int | None = None  # live: problems that are, or nearly are, training problems of the data set

    def to_json(self) -> dict[str, object]:
        """A flat JSON object; `trained_on` only where it was measured live."""
        return {name: value for name, value in asdict(self).items() if name != "trained_on" or value is not None}


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """How to judge."""

    sample: int = 100  # live: random configurations measured per problem; best known is over them and all proposals
    draws: int = 4000  # of the bootstrap: the ends of the interval move by less than 0.001
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the methods reached on one problem: log shares by (method, measured)."""

    problem: str
    device: str
    log_shares: Mapping[tuple[str, int], float]
    unmeasured: int


def evaluate(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             questions: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Callable[[str], None] = lambda step: None) -> list[Row]:
    """Rows for every device, method and number. `questions` are judged live (by default the held-out problems); those
    on which nothing runs are left out."""
    return rows(outcomes(data, checkpoint, methods, counts, options, measure, questions, on_skip, progress), options)


def outcomes(data: Data, checkpoint: Predictor | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             questions: Sequence[tuple[Problem, Device]] | None = None, on_skip: OnSkip | None = None,
             progress: Callable[[str], None] = lambda step: None) -> list[Outcome]:
    """The outcome of every problem: what `rows` sums up."""
    options = options or EvaluateOptions()
    progress("reading the data set")
    proposers = fitted(measured_tasks(data, held_out=False), checkpoint, methods, progress)
    if measure is not None:
        if questions is None:
            questions = [(measured.problem, measured.device) for measured in measured_tasks(data, held_out=True)]
        live: list[Outcome] = []
        failed: SeqtuneError | None = None
        for problem, device in questions:
            try:
                live.append(_live(problem, device, proposers, methods, counts, measure, options))
            except SeqtuneError as error:
                if type(error) is not SeqtuneError:
                    raise  # a misuse, or a device that does not open
                failed = error
                if on_skip is not None:
                    on_skip(problem, str(error))
        if failed is not None and not live:
            raise failed
        return live
    found = measured_tasks(data, held_out=True)
    if not found:
        raise MisuseError("the data set holds out no problem that a kernel here solves; nothing to evaluate on")
    replayed: list[Outcome] = []
    for place, measured in enumerate(found, start=1):
        progress(f"problem {place} of {len(found)}: {measured.problem.brief()} on {measured.device.name}")
        replayed.append(_replayed(measured, proposers, methods, counts))
    return replayed


def judged(data: Data, checkpoint: Predictor, counts: Sequence[int] = COUNTS) -> list[Outcome]:
    """The checkpoint alone on the held-out problems, if any, without fitting anything."""
    proposers: dict[str, Predictor] = {"seq2seq": checkpoint}
    return [_replayed(measured, proposers, ["seq2seq"], counts) for measured in measured_tasks(data, held_out=True)]


def check_methods(methods: Sequence[str]) -> None:
    """Refuse what is no method."""
    for name in methods:
        if name not in METHODS:
            raise MisuseError(f"no method {name!r:.40}; there are {', '.join(METHODS)}")


def fitted(training: Sequence[MeasuredTask], checkpoint: Predictor | None, methods: Sequence[str],
           progress: Callable[[str], None] = lambda step: None) -> dict[str, Predictor]:
    """The methods by name, fitted on measured training tasks; `random` needs none."""
    check_methods(methods)
    trees = cache(lambda: Trees(training))  # two methods share them
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
    picks = {name: _proposed(method, task, most) for name, method in proposers.items()}
    safe = task.default
    drawn = _sample(task, options.sample, options.seed)
    wanted = list(dict.fromkeys([safe, *(pick for some in picks.values() for pick in some), *drawn]))
    known = {configuration: measurement.seconds
             for configuration, measurement in zip(wanted, measure(problem, device, wanted), strict=True)}
    best = min(known.values())
    if math.isinf(best):
        raise SeqtuneError(f"no configuration of {problem.brief()} ran on {device.name}")
    times = {name: [known[pick] for pick in some] for name, some in picks.items()}
    return _outcome(problem, device, times, known[safe], np.array([known[pick] for pick in drawn]), best, methods,
                    counts, len(task) - len(wanted))


def _proposed(predictor: Predictor, task: Task, count: int) -> list[Configuration]:
    return [candidate.configuration for candidate in predictor.propose([task], count)[0]]


def _sample(task: Task, count: int, seed: int) -> list[Configuration]:
    generator = np.random.default_rng(seed)
    numbers = generator.choice(len(task), size=min(count, len(task)), replace=False)
    return [task[number] for number in numbers.tolist()]


def _outcome(problem: Problem, device: Device, times: Mapping[str, Sequence[float]], default: float, drawn: Floats,
             best: float, methods: Sequence[str], counts: Sequence[int], unmeasured: int) -> Outcome:
    """`times` of each method's proposals in order; `drawn` are those that random chooses from."""
    everything = np.concatenate([drawn, *times.values()])
    found: dict[tuple[str, int], float] = {}
    for name in methods:
        for count in counts:
            if name == "random":
                log_share = random_log_share(best / counted(drawn, default, everything), max(1, count))
            else:
                tried = times[name][:max(1, count)] or [default]
                log_share = math.log(best / float(counted(tried, default, everything).min()))
            found[name, count] = log_share
    return Outcome(problem.key, device.name, found, unmeasured)


def rows(found: Sequence[Outcome], options: EvaluateOptions | None = None) -> list[Row]:
    """Geometric means by device, method and number, each compared with seq2seq's."""
    options = options or EvaluateOptions()
    table: list[Row] = []
    for device in dict.fromkeys(outcome.device for outcome in found):
        mine = [outcome for outcome in found if outcome.device == device]
        columns = {key: np.array([outcome.log_shares[key] for outcome in mine]) for key in mine[0].log_shares}
        unmeasured = sum(outcome.unmeasured for outcome in mine)
        for (method, count), logs in columns.items():
            low = high = ratio = None
            if method == "seq2seq":
                if count == 0 and ("fixed", 0) in columns:
                    fixed_regret = -math.expm1(columns["fixed", 0].mean())
                    ratio = -math.expm1(logs.mean()) / fixed_regret if fixed_regret > 0 else None
            elif ("seq2seq", count) in columns:
                low, high = bootstrap(columns["seq2seq", count], logs, options.draws, options.seed)
            table.append(Row(device, method, count, math.exp(logs.mean()), len(mine), low, high,
                             high is not None and high < 0, ratio, unmeasured))
    return table


def bootstrap(ours: Floats, theirs: Floats, draws: int, seed: int) -> tuple[float, float]:
    """95 % interval of the difference of geometric means; the same problems are drawn for both. From log shares."""
    chosen = np.random.default_rng(seed).integers(0, len(ours), (draws, len(ours)))
    difference = np.exp(ours[chosen].mean(axis=1)) - np.exp(theirs[chosen].mean(axis=1))
    low, high = np.quantile(difference, [0.025, 0.975])
    return float(low), float(high)
