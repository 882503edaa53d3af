"""Contract of every source of next words that a beam search can ask."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.sequence.beam import Allowed, NextWord, beam_search
from seqtune.predictor.sequence.grammar import BatchGrammar, Longer
from tests.support.devices import device_of

ROOT = Path(__file__).resolve().parents[2]
CONVOLUTIONS = tuple(Problem.make("conv2d", c=c, h=14, w=14, k=k, r=1, s=1) for c, k in ((16, 32), (64, 96)))


@cache
def labelled() -> Checkpoint:
    """The shipped model of labels."""
    return Checkpoint.load("miopen")


SOURCES: dict[str, Callable[[], NextWord[Any]]] = {  # by the room or guest and the name of the class
    "translator.NumpyTranslator": lambda: Checkpoint.load("default").next_word(),
    "translator.NumpyTranslator with fixed words": lambda: labelled().translator,
    "miopen.LabelWords": lambda: labelled().next_word(),
}


def test_every_source_of_next_words_is_tested_here() -> None:
    found = set()
    for path in (*(ROOT / "predictor").rglob("*.py"), *(ROOT / "integrations").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
                if {"start", "advance"} <= methods and not any("Protocol" in ast.unparse(base) for base in node.bases):
                    found.add(f"{path.relative_to(ROOT).parts[1]}.{node.name}")
    bases = {name_of(base) for make in SOURCES.values() for base in type(make()).__mro__}
    assert found <= bases


def name_of(source: type) -> str:
    """The name of a class in SOURCES."""
    return ".".join([*source.__module__.split(".")[2:3], source.__name__])


@cache
def opened(name: str) -> tuple[NextWord[Any], tuple[Task, ...]]:
    """A source, and two tasks that it speaks of."""
    source = SOURCES[name]()
    assert name_of(type(source)) == name.partition(" ")[0]
    if "llvm" in source.vocabulary.libraries:
        return source, tuple(Task.of(problem, device_of("llvm")) for problem in CONVOLUTIONS)
    return source, tuple(labelled().task(problem, device_of("miopen")) for problem in CONVOLUTIONS)


def after_first(source: NextWord[Any], tasks: Sequence[Task]) -> Longer:
    """The prefixes that follow the first kernel's word of each task."""
    grammar = BatchGrammar(source.vocabulary, tasks)
    following = grammar.begin()
    return grammar.follow(following.prefixes.select(first_of(following.after)), 0)


def first_of(owners: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first word of each owner."""
    return np.searchsorted(owners, np.arange(2))


def shares(scores: NDArray[np.float32], allowed: Allowed) -> NDArray[np.float64]:
    """Probabilities of the words among those of the same hypothesis; without an opinion (NaN) 0."""
    logs = np.where(np.isnan(scores), -np.inf, scores).astype(np.float64)
    found = np.zeros(len(logs))
    for owner in np.unique(allowed.after):
        rows = allowed.after == owner
        if np.isfinite(logs[rows]).any():
            weights = np.exp(logs[rows] - logs[rows].max())
            found[rows] = weights / weights.sum()
    return found


@pytest.mark.parametrize("name", SOURCES)
class TestNextWord:
    def begin(self, name: str, order: Sequence[int] = (0, 1)) -> tuple[Any, ...]:
        source, tasks = opened(name)
        tasks = tuple(tasks[number] for number in order)
        allowed = Allowed.of(BatchGrammar(source.vocabulary, tasks).begin())
        state, scores = source.start([(task.problem, task.device) for task in tasks], allowed)
        return source, tasks, allowed, state, scores

    def test_there_is_a_score_for_every_allowed_word(self, name: str) -> None:
        *_, allowed, _, scores = self.begin(name)
        assert scores.shape == allowed.words.shape
        assert scores.dtype == np.float32
        assert not np.isposinf(scores).any()

    def test_problems_do_not_disturb_each_other(self, name: str) -> None:
        *_, allowed, _, together = self.begin(name)
        for number in (0, 1):
            *_, alone_allowed, _, alone = self.begin(name, [number])
            assert shares(alone, alone_allowed) == pytest.approx(
                shares(together, allowed)[allowed.after == number], abs=1e-4)

    def test_a_state_can_be_advanced_again_and_heirs_may_change_places(self, name: str) -> None:
        source, tasks, allowed, state, _ = self.begin(name)
        first = first_of(allowed.after)
        answers = []
        for order in ((0, 1), (1, 0), (0, 1)):
            fresh = Allowed.of(after_first(source, [tasks[owner] for owner in order]))
            _, scores = source.advance(state, allowed.select(first[list(order)]), fresh)
            assert scores.shape == fresh.words.shape
            split = shares(scores, fresh)
            answers.append([split[fresh.after == order.index(owner)] for owner in (0, 1)])
        for owner in (0, 1):
            assert answers[0][owner] == pytest.approx(answers[1][owner], abs=1e-4)
            assert answers[0][owner] == pytest.approx(answers[2][owner], abs=1e-12)

    def test_a_beam_over_it_proposes_distinct_valid_configurations(self, name: str) -> None:
        source, tasks = opened(name)
        for task in tasks:
            configurations = [candidate.configuration for candidate in beam_search(source, task, 6, 6)]
            assert len(set(configurations)) == 6
            assert all(task.find(configuration) is not None for configuration in configurations)
