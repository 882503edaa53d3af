"""Dispatchers of random configurations, with random rules, and what their search spaces say of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain, Span
from seqtune.predictor.dispatch.facts import Fact, fact_columns, facts_of
from seqtune.predictor.dispatch.rule import LEVELS, Rule, Tree


def configurations(kernels: Sequence[Kernel], device: Device, problems: Sequence[Problem], count: int,
                   generator: np.random.Generator) -> list[Configuration]:
    """Different configurations, each valid for one of the problems."""
    found: dict[Configuration, None] = {}
    for problem in problems:
        for family in kernels:
            with suppress(MisuseError):  # it does not solve the problem, or a constraint has no value
                found.update(dict.fromkeys(SearchSpace(family, problem, device).sample(generator, 1)))
        if len(found) >= count:
            break
    return list(found)[:count]


def corners(domain: Domain, count: int) -> ProblemColumns:
    """Problems of a domain whose sizes are at the ends of their ranges."""
    ranges = {name: tuple(values) if isinstance(values, Span) else values for name, values in domain.ranges.items()}
    return replace(domain, ranges=ranges).sample(count, np.random.default_rng(0))


def random_rule(facts: Sequence[Fact], values: NDArray[np.int64], members: int, tests: int,
                generator: np.random.Generator) -> Rule:
    """A rule of random trees of all depths, whose thresholds are among the values of the facts, (shape, fact)."""
    test_facts = generator.integers(len(facts), size=tests)
    trees = []
    for depth in (0, 1, 2, 3, 5, 7):
        leaves = generator.integers(-LEVELS, LEVELS + 1, size=(2**depth, members)).tolist()
        trees.append(Tree(tuple(generator.integers(tests, size=2**depth - 1).tolist()), tuple(map(tuple, leaves)),
                          10 ** (depth % 3)))
    thresholds = values[generator.integers(len(values), size=tests), test_facts]
    return Rule(members, tuple(facts), tuple(zip(test_facts.tolist(), thresholds.tolist(), strict=True)), tuple(trees),
                7)


def random_dispatcher(domain: Domain, kernels: Sequence[Kernel], device: Device, members: int = 6, tests: int = 120,
                      seed: int = 0) -> Dispatcher:
    """A dispatcher of configurations that are valid somewhere, with a random rule of 20 facts."""
    generator = np.random.default_rng(seed)
    columns = domain.sample(200, generator)
    problems = [problem for _, problem in columns.problems()]
    chosen = configurations(kernels, device, problems, members, generator)
    every = facts_of(domain.operation, problems, chosen, device)
    facts = [every[index] for index in sorted(generator.permutation(len(every))[:20].tolist())]
    rule = random_rule(facts, fact_columns(facts, columns), len(chosen), tests, generator)
    return Dispatcher.of(chosen, {family.name: family for family in kernels}, device, rule, domain)


def space_verdicts(configuration: Configuration, kernel: Kernel, device: Device,
                   columns: ProblemColumns) -> NDArray[np.bool_]:
    """Whether the search space of each problem has the configuration."""
    verdicts = []
    for _, problem in columns.problems():
        try:
            verdicts.append(configuration in SearchSpace(kernel, problem, device))
        except MisuseError:
            verdicts.append(False)
    return np.array(verdicts)
