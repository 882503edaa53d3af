"""Agreement: how well methods predict what another tuner chose, where no times are known.

Two people who tune one GPU agree in a quarter of their choices, since many configurations are equally fast. So the rank
of a choice counts beside equality: the share of valid configurations that a method expects to be faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial

import numpy as np

from seqtune.kernels.task import ChosenTask, Floats, Task
from seqtune.tuner.cost_models.analytic import estimates

from ...checkpoint import Checkpoint
from ...checkpoint_parts import parts_of
from ...predictors import Predictor
from ...trees.ranker import Ranker
from .baselines import Nearest
from .shares import OURS

BLOCK = ("block_m", "block_n", "block_k")  # derived quantities of kernels that describe their tiles


# What a method proposes first (its number), and how slow it expects every configuration to be, as far as known.
Method = Callable[[Task], tuple[int | None, Floats | None]]


def methods_of(checkpoint: Checkpoint, training: Sequence[ChosenTask] = ()) -> dict[str, Method]:
    """A checkpoint and its parts, the analytic model and, with the tasks of the training, the nearest one's choice."""
    predictors = {name: part for name, part in parts_of(checkpoint).items() if name != "trees"}
    methods: dict[str, Method] = {name: partial(by_predictor, predictor)
                                  for name, predictor in {OURS: checkpoint, **predictors}.items()}
    if checkpoint.ranker is not None:
        methods["trees"] = partial(by_trees, checkpoint.ranker)
    methods["analytic"] = by_analytic
    if training:
        methods["nearest"] = partial(by_predictor, Nearest(training))
    return methods


def by_predictor(predictor: Predictor, task: Task) -> tuple[int | None, Floats | None]:
    """A predictor's first proposal; a checkpoint also expects a slowness of every configuration."""
    (candidates,) = predictor.propose([task], 1)
    slowness = None
    if isinstance(predictor, Checkpoint) and predictor.ranker is not None:
        slowness = predictor.expected(task, np.arange(len(task)))
    return task.find(candidates[0].configuration) if candidates else None, slowness


def by_trees(ranker: Ranker, task: Task) -> tuple[int, Floats]:
    """The configuration that boosted trees expect to be fastest."""
    slowness = ranker.slowness(task, np.arange(len(task)))
    return int(np.argmin(slowness)), slowness


def by_analytic(task: Task) -> tuple[int | None, Floats | None]:
    """The configuration with the shortest analytic estimate; nothing for kernels and devices without one."""
    seconds = estimates(task)
    return (None, None) if np.isnan(seconds).any() else (int(np.argmin(seconds)), seconds)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The agreement of a method's first proposal with one choice: 1 where values are the chosen ones, else 0."""

    weight: float
    exact: float
    block: float | None  # None for kernels that do not describe tiles
    parameters: Mapping[str, float]  # those with several values in the space
    rank: float | None


def outcomes(method: Method, chosen: ChosenTask) -> Iterator[Outcome]:
    """The outcomes of a task's choices; none where the method has no answer."""
    first, slowness = method(chosen.task)
    if first is None:
        return
    (space,) = chosen.task.spaces
    free = np.flatnonzero((space.rows != space.rows[0]).any(axis=0)).tolist()
    has_blocks = {name for name, _ in space.kernel.derived}.union(space.kernel.by_name).issuperset(BLOCK)
    for number, weight in zip(chosen.numbers.tolist(), chosen.weights.tolist(), strict=True):
        same = space.rows[first] == space.rows[number]
        block = None
        if has_blocks:
            columns = space.at(np.array([first, number])).columns()
            block = float(all(columns[name][0] == columns[name][1] for name in BLOCK))
        yield Outcome(weight, float(same.all()), block,
                      {space.kernel.parameters[index].name: float(same[index]) for index in free},
                      None if slowness is None else float((slowness < slowness[number]).mean()))


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """A row of the table: a method on a device."""

    device: str
    method: str
    choices: float  # copies of a table count once
    exact: float  # share of choices
    block: float | None
    per_parameter: float  # mean share over parameters
    rank: float | None  # median share of valid configurations that the method expects to be faster
    parameters: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        """The row as a JSON object."""
        return asdict(self)

    @classmethod
    def of(cls, device: str, method: str, results: Sequence[Outcome]) -> AgreementRow:
        """The row of outcomes, of which there is at least one."""
        weights = np.array([result.weight for result in results])
        names = dict.fromkeys(name for result in results for name in result.parameters)
        parameters = {name: _mean([result.parameters.get(name) for result in results], weights) for name in names}
        each = [float(np.mean([*result.parameters.values()])) if result.parameters else 1.0 for result in results]
        known = [result.rank for result in results if result.rank is not None]
        return cls(device, method, float(weights.sum()), float(np.average([result.exact for result in results],
                                                                          weights=weights)),
                   _mean([result.block for result in results], weights), float(np.average(each, weights=weights)),
                   _median(np.array(known), weights) if len(known) == len(results) else None,
                   {name: share for name, share in parameters.items() if share is not None})


def agreement_rows(methods: Mapping[str, Method], tasks: Sequence[ChosenTask]) -> list[AgreementRow]:
    """The rows of methods by device: each task counts for every method."""
    parts: dict[str, list[ChosenTask]] = {}
    for task in tasks:
        parts.setdefault(task.device.name, []).append(task)
    rows = []
    for device, members in parts.items():
        for name, method in methods.items():
            results = [outcome for task in members for outcome in outcomes(method, task)]
            if results:
                rows.append(AgreementRow.of(device, name, results))
    return rows


def _mean(values: Sequence[float | None], weights: Floats) -> float | None:
    known = [(value, weight) for value, weight in zip(values, weights.tolist(), strict=True) if value is not None]
    return float(sum(value * weight for value, weight in known) / sum(weight for _, weight in known)) if known else None


def _median(values: Floats, weights: Floats) -> float:
    """The weighted median."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(sums, sums[-1] / 2)])
