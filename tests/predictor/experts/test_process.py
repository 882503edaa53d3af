"""Tests of the Gaussian processes: what they predict, when there are none, and what a file may not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task
from seqtune.predictor.experts.process import MOST_ROWS, Processes, ProcessFields
from tests.support.learning.damaged_arrays import Arrays, first_number, replaced
from tests.support.synthetic import DIRECT, data, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

DATA = data(14, held_out=4, sampled=40)
with registered():
    TASKS, UNSEEN = (measured_tasks(DATA, held_out=held_out) for held_out in (False, True))
_PROCESSES = Processes.of(TASKS)
assert _PROCESSES is not None
PROCESSES: Processes = _PROCESSES
KERNELS = [DIRECT.name]


def test_the_first_of_an_unseen_problem_is_much_faster_than_chance() -> None:
    first, chance = [], []
    for measured in UNSEEN:
        slowness = PROCESSES.opinion(measured.task, np.arange(len(measured.task)))
        assert slowness is not None
        shares = np.nan_to_num(measured.shares())
        first.append(float(shares[int(np.argmin(slowness))]))
        chance.append(float(shares.mean()))
    assert np.mean(first) > np.mean(chance) + 0.2


def test_it_orders_measured_configurations_nearly_as_they_were_measured() -> None:
    for measured in TASKS:
        numbers = np.flatnonzero(np.isfinite(measured.seconds))
        slowness = PROCESSES.opinion(measured.task, numbers)
        assert slowness is not None
        assert np.corrcoef(slowness[:, 0], np.log(measured.seconds[numbers]))[0, 1] > 0.9


def test_there_is_none_for_one_task_many_measurements_or_another_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Processes.of(TASKS[:1]) is None
    other = replace(DIRECT, name="fake.other")
    task = Task(TASKS[0].problem, TASKS[0].device, (SearchSpace(other, TASKS[0].problem, TASKS[0].device),))
    assert PROCESSES.opinion(task, np.arange(3)) is None
    rows = sum(int(np.isfinite(measured.seconds).sum()) for measured in TASKS)
    assert rows <= MOST_ROWS
    monkeypatch.setattr("seqtune.predictor.experts.process.MOST_ROWS", rows - 1)
    assert Processes.of(TASKS) is None


def test_what_is_written_comes_back_and_says_the_same() -> None:
    again = Processes.read(PROCESSES.about, PROCESSES.arrays(), KERNELS)
    assert again.about == PROCESSES.about
    for measured in UNSEEN:
        numbers = np.arange(len(measured.task))
        said, read = PROCESSES.opinion(measured.task, numbers), again.opinion(measured.task, numbers)
        assert said is not None
        assert read is not None
        assert said.tobytes() == read.tobytes()


def test_features_of_another_version_are_refused_where_they_are_used() -> None:
    (fields,) = PROCESSES.about
    other = Processes.read([ProcessFields(kernel=fields.kernel, features=fields.features + 1)], PROCESSES.arrays(),
                           KERNELS)
    with pytest.raises(CheckpointError, match="train the checkpoint again"):
        other.opinion(UNSEEN[0].task, np.arange(2))


DAMAGES: dict[str, Callable[[Arrays], object]] = {
    "an array is missing": lambda arrays: arrays.pop("0/owner"),
    "an array too many": lambda arrays: arrays.update({"1/owner": arrays["0/owner"]}),
    "a column out of range": first_number("0/columns", 200),
    "a negative column": first_number("0/columns", -1),
    "a task out of range": first_number("0/owner", 1000),
    "a negative task": first_number("0/owner", -1),
    "a coordinate that is no number": first_number("0/rows", np.nan),
    "an infinite scale": first_number("0/scale", np.inf),
    "a huge weight": first_number("0/weights", 1e10),
    "a mean that is no number": first_number("0/constants", np.nan),
    "fewer tasks": replaced("0/tasks", lambda array: array[:1]),
    "another type": replaced("0/weights", lambda array: array.astype(np.float64)),
    "a flat array": replaced("0/rows", lambda array: array.reshape(-1)),
    "a column too few": replaced("0/rows", lambda array: array[:, 1:]),
    "no row": lambda arrays: arrays.update({f"0/{name}": arrays[f"0/{name}"][:0]
                                            for name in ("rows", "owner", "weights")}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_arrays_that_do_not_fit_are_refused(damage: str) -> None:
    arrays = PROCESSES.arrays()
    DAMAGES[damage](arrays)
    with pytest.raises(CheckpointError, match="its Gaussian processes"):
        Processes.read(PROCESSES.about, arrays, KERNELS)


def test_a_process_of_an_unknown_kernel_or_two_of_one_are_refused() -> None:
    with pytest.raises(CheckpointError, match="its Gaussian processes"):
        Processes.read(PROCESSES.about, PROCESSES.arrays(), [])
    twice = {f"{number}{name[1:]}": array for name, array in PROCESSES.arrays().items()
             for number in range(2)}
    with pytest.raises(CheckpointError, match="its Gaussian processes"):
        Processes.read(PROCESSES.about * 2, twice, KERNELS)
