"""Explanation: shows why a configuration was proposed, by its constraints, neighbours, known problems and facts.

Nothing here is a proof. The constraints are exact. What a step away costs is the ranker's prediction, and the weight of
a fact is a simple ablation: the fact alone is replaced by its median over the known devices or problems, and the
predicted lead of the first proposal over the second is computed again.
"""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import distance
from seqtune.kernels.task import Task

from ..trees.ranker import Ranker

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset

    from ..experts.expert import Opinions

MOST_KNOWN, MOST_FACTS = 3, 5  # rows that are shown
FACTS = ("threads", "compute_units", "vector_bits", "vector_registers", "l1_bytes", "l2_bytes", "l3_bytes",
         "local_memory", "max_work_group", "peak_gflops", "bandwidth_gbs")


@dataclass(frozen=True, slots=True)
class ValueStep:
    """A step to the next smaller or larger value of one parameter: forbidden, or with an expected cost."""

    parameter: str
    value: Setting
    next_value: Setting
    reason: str | None  # the constraint that forbids it; None if it is valid
    slowdown: float | None = None  # expected time over that of the proposal; None if forbidden or not predicted


@dataclass(frozen=True, slots=True)
class KnownProblem:
    """A problem of the training data, and its fastest measured configuration."""

    problem: Problem
    device: Device
    winner: Configuration
    seconds: float

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"problem": self.problem.to_json(), "device": self.device.name, "kernel": self.winner.kernel,
                "configuration": dict(self.winner.settings), "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class FactWeight:
    """How the first proposal's predicted lead over the second changes without a fact of the problem or device."""

    fact: str
    value: float
    median: float
    lead: float  # expected time of the second proposal over that of the first
    lead_without: float  # the same with the median instead of the value; below 1 the second would come first


@dataclass(frozen=True, slots=True)
class ExpertOpinion:
    """The share of the best speed that one expert expects of each proposal."""

    expert: str
    shares: tuple[float, ...]  # the expected share of the best speed of each proposal


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the first proposal was made."""

    steps: tuple[ValueStep, ...]
    known: tuple[KnownProblem, ...]  # nearest first
    facts: tuple[FactWeight, ...]  # the most important first
    experts: tuple[ExpertOpinion, ...] = ()  # none where the predictor has none

    @property
    def mean_shares(self) -> tuple[float, ...]:
        """The geometric mean of the experts' shares of each proposal: all experts count the same."""
        shares = np.array([expert.shares for expert in self.experts])
        return tuple((shares.prod(axis=0) ** (1 / len(shares))).tolist()) if self.experts else ()

    def to_json(self) -> dict[str, object]:
        """A JSON object."""
        return {"steps": [asdict(step) for step in self.steps], "known": [problem.to_json() for problem in self.known],
                "facts": [asdict(fact) for fact in self.facts],
                "experts": [asdict(expert) for expert in self.experts]}


def explain(task: Task, proposals: Sequence[Configuration], ranker: Ranker | None, known: Sequence[KnownProblem],
            said: Opinions | None = None) -> Explanation:
    """Explain the first of the proposals, of which there is at least one; `said` is what the experts say of them."""
    return Explanation(tuple(steps_of(task, proposals[0], ranker)), tuple(nearest(task, known)),
                       tuple(fact_weights(task, proposals, ranker, known)),
                       () if said is None else tuple(expert_opinions(said)))


def expert_opinions(said: Opinions) -> list[ExpertOpinion]:
    """The expectations of each expert."""
    return [ExpertOpinion(name, tuple(np.exp(-opinion.mean(axis=1)).clip(0, 1).tolist()))
            for name, opinion in said.by_expert.items()]


@lru_cache(maxsize=1)
def shipped_winners() -> tuple[KnownProblem, ...]:
    """The training problems of the shipped data set on each device, with their fastest configurations."""
    from seqtune.data.dataset import Dataset

    return tuple(winners(Dataset.shipped()))


def winners(data: Dataset) -> list[KnownProblem]:
    """The training problems of a data set on each device, with their fastest configurations."""
    from seqtune.data.dataset import configuration

    rows = data.rows[(data.rows["status"] == "correct") & ~data.rows["problem"].isin(data.held_out)]
    fastest = rows.loc[rows.groupby(["problem", "device"], observed=True)["seconds"].idxmin()]
    columns = [fastest[name].tolist() for name in ("problem", "device", "kernel", "configuration", "seconds")]
    return [KnownProblem(data.known_problems[problem], data.devices[device], configuration(kernel, text), seconds)
            for problem, device, kernel, text, seconds in zip(*columns, strict=True)]


def steps_of(task: Task, configuration: Configuration, ranker: Ranker | None) -> list[ValueStep]:
    """The steps to the next smaller and larger value of each parameter."""
    (space,) = (space for space in task.spaces if space.kernel.name == configuration.kernel)
    steps: dict[Configuration, ValueStep] = {}
    for parameter in space.kernel.parameters:
        value = configuration[parameter.name]
        index = parameter.index(value)
        for next_value in parameter.values[max(0, index - 1):index] + parameter.values[index + 1:index + 2]:
            neighbour = Configuration(configuration.kernel, tuple(
                (name, next_value if name == parameter.name else setting) for name, setting in configuration.settings))
            steps[neighbour] = ValueStep(parameter.name, value, next_value, space.why_not(neighbour))
    valid = [neighbour for neighbour, step in steps.items() if step.reason is None]
    if ranker is not None:
        before, *after = _slowness(task, (configuration, *valid), ranker)
        for neighbour, slowness in zip(valid, after, strict=True):
            if not math.isnan(slowness):
                steps[neighbour] = replace(steps[neighbour], slowdown=math.exp(slowness - before))
    return list(steps.values())


def nearest(task: Task, known: Sequence[KnownProblem], count: int = MOST_KNOWN) -> list[KnownProblem]:
    """The known problems of the same operation and backend that are nearest; those of the same device come first."""
    alike = [other for other in known if other.problem.type == task.problem.type
             and other.device.backend == task.device.backend]
    return sorted(alike, key=lambda other: (distance(task.problem, other.problem),
                                            other.device.name != task.device.name))[:count]


def fact_weights(task: Task, proposals: Sequence[Configuration], ranker: Ranker | None,
                 known: Sequence[KnownProblem], count: int = MOST_FACTS) -> list[FactWeight]:
    """The facts without which the lead of the first proposal over the second changes most; none with one proposal."""
    if ranker is None or len(proposals) < 2 or not known:
        return []
    pair = tuple(proposals[:2])
    lead = _lead(task, pair, ranker)
    weights: list[FactWeight] = []
    for name, value, median, problem, device in _ablations(task, known):
        without = _lead(_pretending(task, problem, device), pair, ranker)
        if math.isfinite(lead) and math.isfinite(without):
            weights.append(FactWeight(name, value, median, lead, without))
    weights.sort(key=lambda weight: -abs(math.log(weight.lead_without / weight.lead)))
    return [weight for weight in weights if weight.lead_without != weight.lead][:count]


def _ablations(task: Task, known: Sequence[KnownProblem]) -> Iterator[tuple[str, float, float, Problem, Device]]:
    """Each number of device and problem with its median, and the problem and device that have the median instead."""
    problem, device = task.problem, task.device
    devices = list({other.device.key: other.device for other in known
                    if other.device.backend == device.backend}.values())
    for name in FACTS if devices else ():
        value = getattr(device, name)
        median = statistics.median_low(getattr(other, name) for other in devices)
        if median != value:
            yield f"device {name}", value, median, problem, replace(device, **{name: median})
    alike = [dict(other.problem) for other in known if other.problem.type == problem.type]
    for name, value in problem if alike else ():
        numbers = [number for other in alike if isinstance(number := other.get(name), int)]
        if isinstance(value, int) and numbers and (median := statistics.median_low(numbers)) != value:
            try:
                changed = Problem.make(problem.type, **{**dict(problem), name: median})
            except SeqtuneError:
                continue  # such a problem does not exist, as groups that do not divide the channels
            yield name, value, median, changed, device


def _pretending(task: Task, problem: Problem, device: Device) -> Task:
    """The task with the same configurations, described to the trees as another problem or device."""
    spaces = []
    for space in task.spaces:
        other = copy.copy(space)
        other.problem, other.device = problem, device
        spaces.append(other)
    return Task(problem, device, tuple(spaces))


def _lead(task: Task, pair: Sequence[Configuration], ranker: Ranker) -> float:
    first, second = _slowness(task, pair, ranker)
    return math.exp(second - first)


def _slowness(task: Task, configurations: Sequence[Configuration], ranker: Ranker) -> list[float]:
    numbers = np.array([task.number(configuration) for configuration in configurations])
    slowness: list[float] = ranker.slowness(task, numbers).tolist()
    return slowness
