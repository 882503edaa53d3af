"""The largest numbers of training problems: a problem that exceeds them is told so, by features rather than sizes."""

from __future__ import annotations

from dataclasses import replace

from seqtune.data.measured_tasks import measured_tasks
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.predictor.largest import NONE_LEARNED, Largest
from tests.support.synthetic import data, registered

with registered():
    TASKS = measured_tasks(data(6, held_out=2, sampled=20), held_out=False)
TASK = max((measured.task for measured in TASKS), key=lambda task: task.problem.size("c"))
LARGEST = Largest.of(TASKS)


def larger(**features: int) -> Task:
    return Task(Problem.make(TASK.problem.type, **{**dict(TASK.problem), **features}), TASK.device, TASK.spaces)


def test_a_number_beyond_all_training_problems_is_named_with_the_most_that_was_known() -> None:
    assert all(LARGEST.exceeded(measured.task) == () for measured in TASKS)
    excesses = {excess.name: excess for excess in LARGEST.exceeded(larger(c=1 << 20))}
    assert (excesses["c"].value, excesses["c"].most) == (1 << 20, TASK.problem["c"])
    assert set(excesses) <= {"c", "flop"}, "other sizes say the same"


def test_nothing_is_known_of_another_backend_or_before_a_training_and_it_is_kept_as_json() -> None:
    elsewhere = replace(TASK.device, backend="other")
    assert LARGEST.exceeded(Task(larger(c=1 << 20).problem, elsewhere, TASK.spaces)) == ()
    assert NONE_LEARNED.exceeded(TASK) == ()
    assert Largest.model_validate_json(LARGEST.model_dump_json()) == LARGEST
