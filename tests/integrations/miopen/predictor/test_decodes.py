"""Every decode of every MIOpen solver is valid, checked without its search space.

The configurations are predicted for random convolutions, odd sizes included, on GPUs of every generation: greedily in
batches, with a beam on the checkpoint's scores, and with a wide beam on random scores. The kernel's conditions and
constraints are evaluated over columns, and for one configuration in ten over plain numbers, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from seqtune.integrations.miopen.kernels.solver import SOLVERS
from seqtune.integrations.miopen.predictor.labels import Labels, Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Kernel
from seqtune.kernels.membership import Membership
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores, beam_search_many
from seqtune.predictor.sequence.vocabulary import Vocabulary
from tests.support.declarations import why_invalid
from tests.support.learning.greedy import Greedy
from tests.support.learning.miopen_problems import draw, gpus, solved

DRAWN = 20_000  # convolutions that are drawn for all solvers
GREEDY = 6  # convolutions that one solver gets
SEARCHED = 1  # convolution of these that is also decoded with beams
WIDTH, CHANCE_WIDTH = 32, 128  # of the beams on the checkpoint's scores and on random ones
PLAIN = 10  # one configuration in PLAIN is also checked over plain numbers

Pairs = Sequence[tuple[Problem, Device]]
Decodes = list[tuple[Problem, Device, Configuration]]


class RandomScores:
    """Scores next words at random."""

    def __init__(self, vocabulary: Vocabulary, generator: np.random.Generator) -> None:
        self.vocabulary, self.generator = vocabulary, generator

    def start(self, queries: Pairs, allowed: Allowed) -> tuple[None, Scores]:
        return None, self.generator.normal(size=len(allowed.words)).astype(np.float32)

    def advance(self, state: None, said: Allowed, allowed: Allowed) -> tuple[None, Scores]:
        return self.start((), allowed)


def decoded(words: NextWord[Any], kernel: Kernel, pairs: Pairs, generator: np.random.Generator) -> Decodes:
    """Configurations decoded with all methods; only for the first SEARCHED pairs with beams."""
    no_labels = np.zeros((len(pairs), len(kernel.parameters)), np.int16)
    proposed = Greedy(words).predict(Labels(**vars(Queries.of(pairs)), kernel=kernel, value_indices=no_labels))[:, 0]
    decodes = [(*pair, Configuration.of(kernel.name, {
        parameter.name: parameter.values[index] for parameter, index in zip(kernel.parameters, indices, strict=True)}))
        for pair, indices in zip(pairs, proposed.tolist(), strict=True) if min(indices) >= 0]
    tasks = [Task(*pair, (space,)) for pair in pairs[:SEARCHED] if len(space := SearchSpace(kernel, *pair))]
    scorers: tuple[tuple[NextWord[Any], int], ...] = (
        (words, WIDTH), (RandomScores(words.vocabulary, generator), CHANCE_WIDTH))
    for scorer, width in scorers if tasks else ():
        decodes += [(task.problem, task.device, candidate.configuration)
                    for task, candidates in zip(tasks, beam_search_many(scorer, tasks, width, width), strict=True)
                    for candidate in candidates]
    return decodes


def faults(kernel: Kernel, decodes: Decodes) -> Iterator[str]:
    """The configurations that are invalid, with the reason."""
    for device in dict.fromkeys(device for _, device, _ in decodes):
        pairs = [(problem, configuration) for problem, other, configuration in decodes if other == device]
        for number, ((problem, configuration), reason) in enumerate(zip(pairs, why_not(kernel, device, pairs),
                                                                        strict=True)):
            if number % PLAIN == 0:
                reason = reason or why_invalid(kernel, device, problem, configuration)
            if reason is not None:
                yield f"{kernel.name} {configuration.brief()} for {problem.brief()} on {device.name}: {reason}"


def why_not(kernel: Kernel, device: Device, pairs: Sequence[tuple[Problem, Configuration]]) -> list[str | None]:
    """Check configurations over columns: the reason why each one is invalid, or None."""
    index = {problem: number for number, problem in enumerate(dict.fromkeys(problem for problem, _ in pairs))}
    problems = ProblemColumns.of(list(index)).take(np.array([index[problem] for problem, _ in pairs]))
    settings = {name: np.array([configuration[name] for _, configuration in pairs]) for name in kernel.by_name}
    return list(Membership(kernel, problems, device, settings).reasons)


def test_decodes_of_every_solver_are_valid() -> None:
    checkpoint, generator = Checkpoint.load("miopen"), np.random.default_rng(3)
    columns, count, invalid = draw(DRAWN, generator), 0, list[str]()
    for kernel in checkpoint.kernels.values():
        pairs = [pair for pair in solved(kernel, columns, gpus(), GREEDY, generator) if kernel.why_not(*pair) is None]
        if pairs:
            decodes = decoded(checkpoint.next_word(), kernel, pairs, generator)
            count += len(decodes)
            invalid += faults(kernel, decodes)
    assert len(checkpoint.kernels) == len(SOLVERS)
    assert count > 2000
    assert invalid == []
