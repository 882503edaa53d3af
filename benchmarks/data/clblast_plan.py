"""The shared configurations of CLBlast's data: drawn ones first, then those that trees expect to help most products.

CLBlast builds a program for each configuration, which takes PoCL seconds, and one program serves every product.
Therefore the plan lists configurations, and every one is measured on all products.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.tuner.cost_models.boosting import Boosting
from seqtune.tuner.cost_models.trees import TaskFeatures

ANY_PROBLEM = parse_problem("gemm m=256 n=256 k=256")  # all products have the same configurations
MOST_UNROLLED = 256  # numbers and steps of a work-item; PoCL compiles larger ones for minutes
POOL = 5000  # configurations of a kernel family among which the trees choose
TREES = Boosting("reg:squarederror", rounds=300, depth=8, rate=0.08, columns=0.5, least_weight=2.0, bins=64)

Times = Mapping[Problem, Mapping[Configuration, float]]


class Plan:
    """A file with one configuration in each line, in the order of planning."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def configurations(self) -> list[Configuration]:
        """All planned configurations."""
        if not self.path.exists():
            return []
        lines = map(json.loads, self.path.read_text().splitlines())
        return [Configuration.of(line["kernel"], line["settings"]) for line in lines]

    def for_held_out(self) -> set[Configuration]:
        """The configurations that were proposed for held-out products, which no training product may be tried with."""
        lines = map(json.loads, self.path.read_text().splitlines()) if self.path.exists() else ()
        return {Configuration.of(line["kernel"], line["settings"]) for line in lines if line.get("held_out")}

    def add(self, configurations: Iterable[Configuration], held_out: bool = False) -> int:
        """Append those that are not planned yet; returns their number. `held_out`: see `for_held_out`."""
        known = set(self.configurations())
        new = [configuration for configuration in dict.fromkeys(configurations) if configuration not in known]
        with self.path.open("a") as file:
            for configuration in new:
                line = {"kernel": configuration.kernel, "settings": dict(configuration.settings),
                        **({"held_out": True} if held_out else {})}
                file.write(json.dumps(line) + "\n")
        return len(new)


def is_quick_to_build(space: SearchSpace) -> NDArray[np.bool_]:
    """A mask of the configurations that PoCL compiles in seconds."""
    columns = space.columns()
    steps = columns.get("KWID", columns.get("KREG"))
    return np.asarray(columns["item_numbers"] * steps <= MOST_UNROLLED)


def drawn(family: Kernel, device: Device, count: int, seed: int) -> list[Configuration]:
    """Draw configurations so that every value of every parameter is about equally frequent, and the default first."""
    space = SearchSpace(family, ANY_PROBLEM, device)
    generator = np.random.default_rng(seed)
    rows = generator.permutation(np.flatnonzero(is_quick_to_build(space)))[:40 * count]
    seen = [np.zeros(len(parameter.values)) for parameter in family.parameters]
    chosen = [space.default]
    while len(chosen) < min(count, len(rows)):
        cost = sum(counts[space.rows[rows, column]] for column, counts in enumerate(seen))
        best = int(rows[int(np.argmin(cost + generator.random(len(rows))))])
        rows = rows[rows != best]
        for column, counts in enumerate(seen):
            counts[space.rows[best, column]] += len(counts) / 2
        chosen.append(space[best])
    return chosen


def promising(times: Times, device: Device, families: Sequence[Kernel], shared: int, each: int,
              seed: int) -> list[Configuration]:
    """The configurations that trees, fitted to all times, expect to be fastest.

    First `shared` ones, each the one that most improves the mean over the products of the best expected share so far;
    then the `each` best ones of every product.
    """
    generator = np.random.default_rng(seed)
    problems = list(times)
    pool = [configuration for family in families for configuration in _pool(family, device, generator)]
    pool += [configuration for known in times.values() for configuration in known]
    pool = list(dict.fromkeys(pool))
    expected = _expected(times, device, families, pool, seed)  # log(time / best time), (product, configuration)
    planned = {configuration for known in times.values() for configuration in known}
    tried = np.array([configuration in planned for configuration in pool])
    share = np.exp(-expected)
    best = np.ones(len(problems))
    chosen: list[int] = []
    for _ in range(shared):
        gain = np.maximum(share, best[:, None]).mean(axis=0) - best.mean()
        gain[tried] = -1
        gain[chosen] = -1
        number = int(np.argmax(gain))
        if gain[number] <= 0:
            break
        chosen.append(number)
        best = np.maximum(best, share[:, number])
    order = np.where(tried[None, :], math.inf, expected).argsort(axis=1)[:, :each]
    return [pool[number] for number in dict.fromkeys([*chosen, *order.T.ravel().tolist()])]


def _pool(family: Kernel, device: Device, generator: np.random.Generator) -> list[Configuration]:
    space = SearchSpace(family, ANY_PROBLEM, device)
    rows = np.flatnonzero(is_quick_to_build(space))
    return [space[int(row)] for row in generator.choice(rows, min(POOL, len(rows)), replace=False)]


def _expected(times: Times, device: Device, families: Sequence[Kernel], pool: Sequence[Configuration],
              seed: int) -> NDArray[np.float64]:
    """The logarithm of each configuration's expected time over the product's best: (product, configuration)."""
    rows, target = [], []
    tasks = {problem: Task.of(problem, device, families) for problem in times}
    features = {problem: TaskFeatures(task) for problem, task in tasks.items()}
    for problem, known in times.items():
        best = min(known.values())
        usable = {number: seconds for configuration, seconds in known.items() if math.isfinite(seconds)
                  and (number := tasks[problem].find(configuration)) is not None}
        rows.append(features[problem](list(usable)))
        target.append(np.minimum(np.log(np.array(list(usable.values())) / best), 2.5))
    booster = TREES.grow(np.concatenate(rows), np.concatenate(target))
    expected = np.full((len(times), len(pool)), math.inf)
    for index, (problem, task) in enumerate(tasks.items()):
        numbers = np.full(len(pool), -1)
        for family in task.kernels:
            of_family = [position for position, configuration in enumerate(pool) if configuration.kernel == family.name]
            numbers[of_family] = task.numbers(family.name, [dict(pool[position].settings) for position in of_family])
        valid = np.flatnonzero(numbers >= 0)
        expected[index, valid] = booster.inplace_predict(features[problem](numbers[valid]))
    return expected
