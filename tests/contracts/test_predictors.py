"""Contract of every predictor: shipped models, baselines and untrained predictors, by their tables."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.task import Task
from seqtune.predictor.answering import answering
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.learning.kinds import LEARNINGS, learning_of
from seqtune.predictor.learning.recipe import Recipe
from seqtune.predictor.learning.tasks.baselines import BASELINES
from seqtune.predictor.predictors import (
    SHIPPED,
    UNTRAINED,
    Predictor,
    TaskPredictor,
    cached_checkpoint,
    shipped_for,
    untrained_predictor,
)
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from tests.support.devices import described_gpu, device_of, operations_of, usual
from tests.support.synthetic import data, registered

PROBLEMS = (Problem.make("conv2d", c=16, h=14, w=14, k=32, r=3, s=3, pad_h=1, pad_w=1),
            Problem.make("conv2d", c=64, h=28, w=28, k=96, r=1, s=1), Problem.make("gemm", m=64, n=128, k=256))


@cache
def baseline(name: str) -> tuple[Predictor, tuple[Task, ...]]:
    """A fitted baseline and tasks that it has not seen."""
    toy = data(6, held_out=2, sampled=40)
    with registered():
        fitting, held_out = (measured_tasks(toy, held_out=part) for part in (False, True))
    trees = cache(lambda: Trees(fitting, TreesOptions(rounds=10, models=1, threads=1)))
    return BASELINES[name].fit(fitting, trees), tuple(measured.task for measured in held_out[:3])


@cache
def shipped(name: str) -> tuple[TaskPredictor, tuple[Task, ...]]:
    """A shipped model, and tasks on a device of each backend that it speaks for."""
    model = cached_checkpoint(name)
    return model, tuple(model.task(usual(problem, backend), device_of(backend)) for backend in SHIPPED[name]
                        for problem in PROBLEMS if problem.type in operations_of(backend))


@cache
def untrained(name: str) -> tuple[TaskPredictor, tuple[Task, ...]]:
    """An untrained predictor, and tasks on a GPU of each of its backends; of one that it does not know, too."""
    predictor = untrained_predictor(name)
    tasks = [predictor.task(problem, device) for backend in UNTRAINED[name].backends for problem in PROBLEMS
             if (device := described(backend, "h200")) is not None and kernels_for(problem, device)]
    return predictor, (*tasks, Task.of(PROBLEMS[1], device_of("llvm")))


CASES = {**{name: (baseline, BASELINES[name].fills) for name in BASELINES},
         **{f"checkpoint {name}": (shipped, True) for name in SHIPPED},
         **{f"untrained {name}": (untrained, True) for name in UNTRAINED}}


@pytest.mark.parametrize("case", CASES)
class TestPredictor:
    @staticmethod
    def of(case: str) -> tuple[Predictor, tuple[Task, ...]]:
        make, _ = CASES[case]
        return make(case.rpartition(" ")[2])

    @pytest.mark.parametrize("count", [1, 5, 40])
    def test_proposals_are_distinct_and_valid_and_at_most_as_many_as_asked_for(self, case: str, count: int) -> None:
        predictor, tasks = self.of(case)
        for task, candidates in zip(tasks, predictor.propose(tasks, count), strict=True):
            configurations = [candidate.configuration for candidate in candidates]
            assert 1 <= len(set(configurations)) == len(configurations) <= count
            assert all(task.find(configuration) is not None for configuration in configurations)

    def test_likelier_candidates_come_first(self, case: str) -> None:
        predictor, tasks = self.of(case)
        for candidates in predictor.propose(tasks, 5):
            known = [candidate.log_probability for candidate in candidates if candidate.log_probability is not None]
            assert len(known) in (0, len(candidates))
            assert known == sorted(known, reverse=True)

    def test_the_same_question_has_the_same_answer(self, case: str) -> None:
        predictor, tasks = self.of(case)
        assert predictor.propose(tasks[:1], 5) == predictor.propose(tasks[:1], 5)

    def test_an_answer_does_not_depend_on_the_other_tasks(self, case: str) -> None:
        predictor, tasks = self.of(case)
        assert predictor.propose(tasks, 3) == [predictor.propose([task], 3)[0] for task in tasks]
        assert predictor.propose([], 3) == []

    def test_fewer_than_asked_for_come_only_from_a_smaller_task_where_that_is_promised(self, case: str) -> None:
        _, fills = CASES[case]
        predictor, tasks = self.of(case)
        for task in tasks:
            keep = [number < 4 for number in range(len(task))]
            small = task.narrowed(np.array(keep))
            (candidates,) = predictor.propose([small], 7)
            assert len(candidates) == 4 if fills else 1 <= len(candidates) <= 4


@pytest.mark.parametrize("name", [*SHIPPED, *UNTRAINED])
def test_a_predictor_knows_the_kernels_of_its_tasks(name: str) -> None:
    predictor, (task, *_) = shipped(name) if name in SHIPPED else untrained(name)
    assert predictor.knows(task.kernels)
    predictor.check_kernels(task.kernels)
    stranger = replace(task.kernels[0], name="nobody.knows")
    assert predictor.knows([stranger]) == (name in UNTRAINED)
    assert predictor.knows([stranger, *task.kernels])
    assert predictor.notes(task) or name in SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_checkpoint_expects_times_where_it_has_trees(name: str) -> None:
    checkpoint, (_, (task, *_)) = cached_checkpoint(name), shipped(name)
    expected = checkpoint.expected(task, np.arange(min(5, len(task))))
    assert expected.shape == (min(5, len(task)),)
    assert np.isnan(expected).all() == (checkpoint.ranker is None)
    said = checkpoint.opinions(task, np.arange(len(expected)))
    assert np.array_equal(said.slowness, expected, equal_nan=True)
    assert bool(said.by_expert) != np.isnan(expected).any()


def test_the_checkpoint_for_gpus_is_small_and_has_its_recipe() -> None:
    assert sum(path.stat().st_size for path in find("gpu").iterdir()) < 12_000_000
    recipe = Recipe.read("gpu")
    assert recipe.needs_data
    options = cached_checkpoint("gpu").provenance["options"]
    assert isinstance(options, dict)
    assert recipe.options.seed == options["seed"]


@pytest.mark.parametrize(("words", "is_sure"), [
    ("gemm m=512 n=512 k=512 dtype=bf16", True),
    ("fused_moe tokens=16 experts=8 top_k=2 hidden=1024 intermediate=512 dtype=bf16", False)])
def test_only_kernels_of_which_times_were_learned_have_an_expected_share(words: str, is_sure: bool) -> None:
    asked = answering(parse_problem(words), described_gpu("triton", "h100"))
    assert asked.name == "gpu"
    assert {candidate.confidence is not None for candidate in asked.propose(3).values()} == {is_sure}


def test_every_kind_of_learning_has_a_shipped_checkpoint_and_each_speaks_for_what_the_table_says() -> None:
    assert len({type(learning_of(cached_checkpoint(name))) for name in SHIPPED}) == len(LEARNINGS)
    for name, backends in SHIPPED.items():
        model = cached_checkpoint(name)
        assert set(backends) == set(model.backends)
        assert all(shipped_for(backend) == name for backend in backends)
        assert set(backends) <= set(model.libraries)
        assert all(any(map(library_in_use(library).may_run_on, backends)) for library in model.libraries)
