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

from seqtune.data.record import Measurement
from seqtune.errors import MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace, spaces_for
from seqtune.predictor.baselines import Default, Fixed, Method, Nearest, TreesMethod, random_log_share
from seqtune.predictor.beam import beam_search
from seqtune.predictor.cases import Case, Data, Floats, cases
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.trees import Trees

METHODS = ("seq2seq", "random", "fixed", "nearest", "trees", "default")
COUNTS = (0, 3, 5)

Measure = Callable[[Problem, Device, Sequence[Configuration]], Sequence[Measurement]]


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

    def to_json(self) -> dict[str, object]:
        """A flat JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """How to judge."""

    sample: int = 100  # live: random configurations measured per problem; best known is over them and all proposals
    draws: int = 4000  # of the bootstrap: the ends of the interval move by less than 0.001
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the methods reached on one problem: log shares by (method, measured)."""

    problem: str
    device: str
    log_shares: Mapping[tuple[str, int], float]
    unmeasured: int


def evaluate(data: Data, checkpoint: Checkpoint | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             questions: Sequence[tuple[Problem, Device]] | None = None) -> list[Row]:
    """Rows for every device, method and number. `questions` are judged live (by default the held-out problems)."""
    return rows(verdicts(data, checkpoint, methods, counts, options, measure, questions), options)


def verdicts(data: Data, checkpoint: Checkpoint | None, methods: Sequence[str] = METHODS,
             counts: Sequence[int] = COUNTS, options: EvaluateOptions | None = None, measure: Measure | None = None,
             questions: Sequence[tuple[Problem, Device]] | None = None) -> list[Verdict]:
    """The outcome of every problem: what `rows` sums up."""
    options = options or EvaluateOptions()
    proposers = fitted(cases(data, held_out=False), checkpoint, methods)
    if measure is not None:
        if questions is None:
            questions = [(case.problem, case.device) for case in cases(data, held_out=True)]
        return [_live(problem, device, proposers, methods, counts, measure, options) for problem, device in questions]
    found = cases(data, held_out=True)
    if not found:
        raise MisuseError("the data set holds out no problem that a kernel here solves; nothing to evaluate on")
    return [_replayed(case, proposers, methods, counts) for case in found]


def judged(data: Data, checkpoint: Checkpoint, counts: Sequence[int] = COUNTS) -> list[Verdict]:
    """The checkpoint alone on the held-out problems, if any, without fitting anything."""
    proposers: dict[str, Method] = {"seq2seq": Seq2seq(checkpoint)}
    return [_replayed(case, proposers, ["seq2seq"], counts) for case in cases(data, held_out=True)]


class Seq2seq:
    """The first proposals of a checkpoint's constrained beam."""

    def __init__(self, checkpoint: Checkpoint, width: int = 8) -> None:
        self._words, self._width = checkpoint.next_word(), width

    def propose(self, spaces: Sequence[SearchSpace], count: int) -> list[Configuration]:
        return [candidate.configuration for candidate in beam_search(self._words, spaces, self._width, count)]


def fitted(training: Sequence[Case], checkpoint: Checkpoint | None, methods: Sequence[str]) -> dict[str, Method]:
    """The methods by name, fitted on training cases; `random` needs none."""
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        raise MisuseError(f"no method {unknown[0]!r:.40}; there are {', '.join(METHODS)}")

    def seq2seq() -> Method:
        if checkpoint is None:
            raise MisuseError("seq2seq needs a checkpoint")
        return Seq2seq(checkpoint)

    trees = cache(lambda: Trees(training))  # two methods share them
    makers: dict[str, Callable[[], Method]] = {
        "seq2seq": seq2seq, "fixed": lambda: Fixed(training, trees()), "nearest": lambda: Nearest(training),
        "trees": lambda: TreesMethod(trees()), "default": Default}
    return {name: makers[name]() for name in methods if name != "random"}


def _replayed(case: Case, proposers: Mapping[str, Method], methods: Sequence[str], counts: Sequence[int]) -> Verdict:
    left_out = int((~case.known).sum())
    case = case.measured_only()
    most = max(1, *counts)
    times = {name: [float(case.seconds[case.row(pick)]) for pick in method.propose(case.spaces, most)]
             for name, method in proposers.items()}
    default = float(case.seconds[case.row(case.spaces[0].default)])
    return _verdict(case.problem, case.device, times, default, case.seconds, case.best, methods, counts, left_out)


def _live(problem: Problem, device: Device, proposers: Mapping[str, Method], methods: Sequence[str],
          counts: Sequence[int], measure: Measure, options: EvaluateOptions) -> Verdict:
    spaces = spaces_for(problem, device)
    most = max(1, *counts)
    picks = {name: method.propose(spaces, most) for name, method in proposers.items()}
    safe = spaces[0].default
    drawn = _sample(spaces, options.sample, options.seed)
    wanted = list(dict.fromkeys([safe, *(pick for some in picks.values() for pick in some), *drawn]))
    known = {configuration: measurement.seconds
             for configuration, measurement in zip(wanted, measure(problem, device, wanted), strict=True)}
    best = min(known.values())
    if math.isinf(best):
        raise MisuseError(f"no configuration of {problem.brief()} ran on {device.name}")
    times = {name: [known[pick] for pick in some] for name, some in picks.items()}
    return _verdict(problem, device, times, known[safe], np.array([known[pick] for pick in drawn]), best, methods,
                    counts, sum(map(len, spaces)) - len(wanted))


def _sample(spaces: Sequence[SearchSpace], count: int, seed: int) -> list[Configuration]:
    generator = np.random.default_rng(seed)
    offsets = np.cumsum([0, *map(len, spaces)])
    chosen = generator.choice(offsets[-1], size=min(count, int(offsets[-1])), replace=False)
    numbers = np.searchsorted(offsets, chosen, side="right") - 1
    return [spaces[number][int(row - offsets[number])] for number, row in zip(numbers, chosen, strict=True)]


def _verdict(problem: Problem, device: Device, times: Mapping[str, Sequence[float]], default: float, drawn: Floats,
             best: float, methods: Sequence[str], counts: Sequence[int], unmeasured: int) -> Verdict:
    """`times` of each method's proposals in order; `drawn` are those that random chooses from. A failing pick counts
    as the default, since that is what a user falls back on (and a failing default as the slowest that ran)."""
    if math.isinf(default):
        everything = [*drawn, *(time for some in times.values() for time in some)]
        default = max(time for time in everything if math.isfinite(time))
    found: dict[tuple[str, int], float] = {}
    for name in methods:
        for count in counts:
            if name == "random":
                log_share = random_log_share(best / np.where(np.isfinite(drawn), drawn, default), max(1, count))
            else:
                tried = times[name][:max(1, count)] or [default]
                log_share = math.log(best / min(time if math.isfinite(time) else default for time in tried))
            found[name, count] = log_share
    return Verdict(problem.key, device.name, found, unmeasured)


def rows(found: Sequence[Verdict], options: EvaluateOptions | None = None) -> list[Row]:
    """Geometric means by device, method and number, each compared with seq2seq's."""
    options = options or EvaluateOptions()
    table: list[Row] = []
    for device in dict.fromkeys(verdict.device for verdict in found):
        mine = [verdict for verdict in found if verdict.device == device]
        columns = {key: np.array([verdict.log_shares[key] for verdict in mine]) for key in mine[0].log_shares}
        unmeasured = sum(verdict.unmeasured for verdict in mine)
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
