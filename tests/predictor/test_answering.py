"""Who answers a problem: the predictor is looked up once, its task is built once, and every asker gets the same."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import seqtune
from seqtune.errors import CheckpointError, KernelError, SeqtuneWarning
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.task import Task
from seqtune.predictor import predictors as predictors_module
from seqtune.predictor.answering import (
    MOST_PREDICTED,
    SEEDS,
    Answering,
    answering,
    answering_many,
    predictor_for,
    propose_many,
    seeds_for,
    slowness_for,
)
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.predictors import SAFE_DEFAULT, cached_checkpoint
from seqtune.tuner.backends.measured_rates import RateCache
from seqtune.tuner.load import Load
from tests.support import untrained
from tests.support.devices import device_of

GEMM = Problem.make("gemm", m=8, n=16, k=8)
UNSOLVED = Problem.make("gemm", m=8, n=16, k=8, dtype="fp16")
HERE = device_of("llvm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of llvm.gemm alone, with random weights and without trees."""
    return untrained.save(tmp_path_factory.mktemp("answering") / "checkpoint", HERE, "llvm.gemm")


def test_a_prediction_looks_its_predictor_up_once_and_builds_its_task_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    task = Checkpoint.task

    def counted(model: Checkpoint, *arguments: object) -> Task:
        asked.append("task")
        return task(model, *arguments)  # type: ignore[arg-type]

    def looked_up(name: str | Path) -> object:
        asked.append(name)
        return cached_checkpoint(name)

    monkeypatch.setattr(Checkpoint, "task", counted)
    monkeypatch.setattr(predictors_module, "cached_checkpoint", looked_up)
    seqtune.predict(GEMM, HERE, evidence=False)
    assert asked == ["default", "task"]


def test_the_first_answer_that_rests_on_doubtful_rates_warns_and_a_refusal_before_it_does_not(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rates = RateCache(tmp_path)
    rates.disturbed["key"] = Load(0.93)
    monkeypatch.setattr("seqtune.predictor.answering.warn_of_doubt", rates.warn)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CheckpointError):
            seqtune.predict(GEMM, HERE, evidence=False, checkpoint=tmp_path / "none")
        with pytest.raises(KernelError):
            seqtune.predict(UNSOLVED, HERE, evidence=False)
    with pytest.warns(SeqtuneWarning, match="rates of devices were measured while other processes had 93%") as caught:
        seqtune.predict(GEMM, HERE, evidence=False)
    assert [Path(one.filename).name for one in caught] == [Path(__file__).name], "at the user's line"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        seqtune.predict(GEMM, HERE, evidence=False)


def test_a_named_checkpoint_answers_whatever_it_knows_and_says_so(folder: Path) -> None:
    mine = answering(GEMM, HERE, folder)
    assert (mine.name, mine.note, mine.predictor) == (folder, "", cached_checkpoint(folder))
    assert list(mine.propose(3)) == [candidate.configuration for candidate in
                                     cached_checkpoint(folder).propose([mine.task], 3)[0]]
    attention = answering(parse_problem("attention heads=2 q_len=20 head_dim=16"), HERE, folder)
    with pytest.raises(CheckpointError):
        attention.propose(3)


@pytest.mark.parametrize("name", [SAFE_DEFAULT, "analytic", "gpu", "default"])
def test_a_predictor_of_another_backend_is_refused(name: str) -> None:
    device = device_of("cuda" if name == "default" else "opencl")
    with pytest.raises(CheckpointError, match=f"not for {device.backend}|was not trained for {device.backend}"):
        predictor_for(device, name)


def test_many_problems_get_the_answers_that_each_gets_alone(folder: Path) -> None:
    problems = [GEMM, UNSOLVED, Problem.make("gemm", m=64, n=48, k=20)]
    answered, unsolved = answering_many(problems, HERE, folder)
    assert list(answered) == [problems[0], problems[2]]
    assert list(unsolved) == [UNSOLVED]
    with pytest.raises(KernelError) as alone:
        answering(UNSOLVED, HERE, folder)
    assert str(unsolved[UNSOLVED]) == str(alone.value)
    together = propose_many(list(answered.values()), 3, evidence=False)
    assert [[candidate.configuration for candidate in candidates] for candidates in together] == [
        list(answering(problem, HERE, folder).propose(3)) for problem in answered]
    assert propose_many([], 3) == []


def test_the_seeds_of_a_search_are_the_first_proposals() -> None:
    task = Task.of(GEMM, HERE)
    assert seeds_for(task) == tuple(Answering.of(task, "default").propose(SEEDS))
    assert seeds_for(task, name="gpu") == ()
    with pytest.raises(CheckpointError, match="was not trained for llvm"):
        seeds_for(task, required=True, name="gpu")


def test_a_search_gets_the_time_that_the_trees_expect_of_every_configuration(folder: Path) -> None:
    task = Task.of(GEMM, HERE, [kernel("llvm.gemm")])
    assert len(slowness_for(task)) == len(task) < MOST_PREDICTED
    assert slowness_for(task, most=len(task) - 1) == (), "too many configurations"
    for name in (str(folder), SAFE_DEFAULT, "analytic"):
        assert slowness_for(task, name) == (), "no trees, or no answer for the device"
