"""Dispatchers of random configurations, with random rules, and what guards and search spaces say of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.prediction.dispatch.validity import configurations, corners
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.facts import Fact, fact_columns, facts_of
from seqtune.predictor.dispatch.guards import Guard
from seqtune.predictor.dispatch.rule import LEVELS, Rule, Tree


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


def check_guards(domain: Domain, kernels: Sequence[Kernel], device: Device, members: int = 8) -> None:
    """Compare guards with spaces and with `Membership`."""
    generator, pairs = np.random.default_rng(4), 0
    columns = domain.sample(3000, generator)
    few = columns.take(np.arange(25))
    problems = [problem for _, problem in columns.take(np.arange(300)).problems()]
    for member in configurations(kernels, device, problems, members, generator):
        family = {family.name: family for family in kernels}[member.kernel]
        guard = Guard.of(member, family, device)
        assert guard.holds(few).tolist() == space_verdicts(member, family, device, few).tolist()
        for shapes in (columns, corners(domain, 200)):
            settings = {name: np.full(len(shapes), value) for name, value in member.settings}
            holds = guard.holds(shapes)
            assert holds.tolist() == [reason is None for reason in Membership(family, shapes, device, settings).reasons]
            assert not guard.is_proved(domain) or holds.all()
            folded = Guard(domain.folder.conditions(guard.conditions), guard.reads)
            assert folded.holds(shapes).tolist() == holds.tolist(), (guard, folded)
            pairs += int(holds.sum())
    assert pairs > 0
