"""Sampled problems and a teacher's labels: functions of seed and number, whoever draws them, and bounded in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks import labelled_problems
from seqtune.predictor.learning.tasks.examples import Examples, make_examples, make_teacher, vocabulary_of
from seqtune.predictor.learning.tasks.labelled_problems import LabelledProblems
from seqtune.predictor.training.options import TrainingOptions
from seqtune.tuner.measuring.deadline import Deadline
from tests.support.learning.short_training import DATA, QUICK, train

pytestmark = pytest.mark.usefixtures("fake_kernel")

OPTIONS = replace(QUICK, extra=12, trees=replace(QUICK.trees, models=3, rounds=20))


def _examples(options: TrainingOptions = OPTIONS, avoid: tuple[Problem, ...] = (),
              tasks: list[MeasuredTask] | None = None) -> Examples:
    tasks = measured_tasks(DATA, held_out=False) if tasks is None else tasks
    return make_examples(tasks, make_teacher(tasks, options), vocabulary_of(tasks), options, avoid)


def _labelled(options: TrainingOptions = OPTIONS) -> LabelledProblems:
    labelled = _examples(options).labelled
    assert labelled is not None
    return labelled


def _with(measured: MeasuredTask, **features: Value) -> MeasuredTask:
    """The measured task of a problem with other features."""
    problem = Problem.make(measured.problem.type, **{**dict(measured.problem), **features})
    return MeasuredTask(Task.of(problem, measured.device), measured.seconds)


def test_a_sampled_problem_and_its_labels_follow_from_seed_and_number_in_any_order() -> None:
    first, second = _labelled(), _labelled()
    forward = [first.example(number) for number in range(6)]
    backward = [second.example(number) for number in reversed(range(6))][::-1]
    assert [(example.problem, example.device) for example in forward] == [
        (example.problem, example.device) for example in backward]
    assert [example.tree.digest() for example in forward] == [example.tree.digest() for example in backward]
    assert len({example.problem for example in forward}) > 1
    assert first.digest() == second.digest()
    other = _labelled(replace(OPTIONS, seed=1))
    assert other.digest() != first.digest()
    assert [other.example(number).problem for number in range(6)] != [example.problem for example in forward]


def test_sampled_problems_have_the_form_of_the_measured_ones_and_are_away_from_held_out_ones() -> None:
    tasks = [_with(measured, layout="NHWC", bias="yes") for measured in measured_tasks(DATA, held_out=False)]

    def problems(avoid: tuple[Problem, ...]) -> list[Problem]:
        labelled = _examples(avoid=avoid, tasks=tasks).labelled
        assert labelled is not None
        return [labelled.example(number).problem for number in range(len(labelled))]

    sampled = problems(())
    assert len(sampled) == 12
    assert {(problem["layout"], problem["bias"]) for problem in sampled} == {("NHWC", "yes")}
    assert sampled[0] not in problems((sampled[0],))


def test_problems_that_a_deadline_leaves_unlabelled_are_dropped() -> None:
    labelled = _labelled()
    labelled.label(Deadline())
    assert len(labelled) == OPTIONS.extra
    labelled.label(Deadline(0))
    assert len(labelled) == 0
    assert train(DATA, replace(OPTIONS, epochs=1))[1]["examples"] > 0


@pytest.mark.slow
def test_a_second_process_that_labels_ahead_changes_no_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    options = replace(OPTIONS, epochs=2)
    here = train(DATA, options)[0]
    monkeypatch.setattr(labelled_problems, "KEPT", 4)
    monkeypatch.setattr(labelled_problems, "processors", lambda: 2)
    ahead = train(DATA, replace(options, threads=2))[0]
    assert torch.equal(_weights(here), _weights(ahead))


def _weights(checkpoint: Checkpoint) -> torch.Tensor:
    return torch.cat([tensor.flatten().float() for tensor in checkpoint.network.state_dict().values()])
