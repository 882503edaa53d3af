"""Tests of the table of winners: which problems are near, what they say, and what a file may not hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import CheckpointError
from seqtune.kernels.kernel import Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.mixture.portfolio import portfolios
from seqtune.predictor.mixture.winners import NO_KERNEL, Entry, Group, Winners, rows_of
from seqtune.predictor.sequence.declaration import Declaration
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from tests.support.learning.damaged_arrays import Arrays, first_number, replaced
from tests.support.synthetic import DIRECT, MIDDLE, NARROW, data, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

with registered():
    TASKS = measured_tasks(data(10, held_out=0, sampled=60), held_out=False)
TREES = Trees(TASKS, TreesOptions(rounds=40, models=1, threads=1))
WINNERS = Winners.of([*map(Entry.of, TASKS), *portfolios(TASKS, TREES)])
KERNELS = [Declaration.of(DIRECT)]


def group_of(measured: MeasuredTask, winners: Winners = WINNERS) -> Group:
    """The group of a task."""
    group = winners.group(measured.task)
    assert group is not None
    return group


@pytest.mark.parametrize("measured", TASKS, ids=lambda measured: f"{measured.problem.key} {measured.device.name}")
def test_a_training_problem_is_its_own_nearest_and_its_winner_comes_first(measured: MeasuredTask) -> None:
    group = group_of(measured)
    neighbours = group.neighbours(measured.problem, measured.device)
    assert neighbours.known
    assert neighbours.covered
    assert neighbours.nearness == 1.0
    assert neighbours.weights.sum() == pytest.approx(1)
    first = group.preferences(measured.task, neighbours.entries[:1], 3)
    assert first[0] == int(np.nanargmin(measured.seconds))


def test_a_problem_with_a_greater_number_or_a_new_word_is_not_covered() -> None:
    group, (problem, device) = group_of(TASKS[0]), (TASKS[0].problem, TASKS[0].device)
    assert not group.neighbours(Problem.make(problem.type, **{**dict(problem.features), "k": 100_000}), device).covered
    assert not group.neighbours(Problem.make(problem.type, **{**dict(problem.features), "layout": "NHWC"}),
                                device).covered


def test_an_entry_says_of_its_own_configurations_what_was_measured() -> None:
    measured = TASKS[0]
    group = group_of(measured)
    entry = group.neighbours(measured.problem, measured.device).entries[:1]
    numbers = np.array(group.preferences(measured.task, entry, 5))
    said = group.opinions(measured.task, numbers, entry)[:, 0]
    np.testing.assert_allclose(said, np.log(measured.seconds[numbers] / measured.best), atol=0.15)
    everything = group.opinions(measured.task, np.arange(len(measured.task)), entry)[:, 0]
    slow = np.flatnonzero(measured.seconds > 2 * measured.best)
    assert everything[slow].mean() > said.mean()


def test_another_device_is_farther_than_another_problem_of_the_same_one() -> None:
    group = group_of(TASKS[0])
    problem = Problem.make("conv2d", c=64, h=28, w=28, k=64, r=3, s=3, pad_h=1, pad_w=1)
    nearest = group.neighbours(problem, NARROW)
    assert nearest.known
    assert [group.about.devices[index].split()[0] for index in group.device[nearest.entries[:1]]] == ["fake:narrow"]
    unknown = group.neighbours(problem, MIDDLE)
    assert not unknown.known
    assert unknown.nearness < 1
    assert len(unknown.entries)


def test_a_portfolio_has_the_devices_own_configurations_and_strangers_get_all() -> None:
    group = group_of(TASKS[0])
    assert len(group.portfolio(NARROW)) == 1
    assert len(group.portfolio(MIDDLE)) == 2
    assert len(group.portfolio(replace(NARROW, l2_bytes=1 << 22))) == 1, "a device of the same name"
    assert group.wishes(TASKS[0].task, int(group.portfolio(NARROW)[0]))


def test_rows_are_found_by_the_indices_of_their_values() -> None:
    space = TASKS[0].task.spaces[0]
    assert rows_of(space, space.rows).tolist() == list(range(len(space)))
    assert rows_of(space, np.full((1, space.rows.shape[1] + 1), 99, np.int16)).tolist() == [-1]
    between = space.rows[::3][:-1]
    assert rows_of(space.only(np.arange(len(space)) % 3 > 0), between).tolist() == [-1] * len(between)
    assert rows_of(space.only(np.zeros(len(space), bool)), between).tolist() == [-1] * len(between)


def test_rows_are_found_where_a_parameter_has_hundreds_of_values() -> None:
    kernel = replace(DIRECT, name="fake.long", parameters=(Parameter("vector", tuple(range(1, 601))),), constraints=(),
                     derived=(), default=())
    space = SearchSpace(kernel, TASKS[0].problem, NARROW)
    assert rows_of(space, np.array([[3], [256], [512], [600]], np.int16)).tolist() == [3, 256, 512, -1]


def test_an_operation_that_was_not_measured_has_no_group() -> None:
    assert WINNERS.group(Task(Problem.make("gemm", m=8, n=8, k=8), NARROW, ())) is None


def test_a_table_that_is_written_comes_back() -> None:
    again = Winners.read(WINNERS.about, WINNERS.arrays(), KERNELS)
    assert again.about == WINNERS.about
    arrays = again.arrays()
    assert {name: array.tobytes() for name, array in WINNERS.arrays().items()} == {
        name: array.tobytes() for name, array in arrays.items()}


DAMAGES: dict[str, Callable[[Arrays], object]] = {
    "an array is missing": lambda arrays: arrays.pop("0/words"),
    "an array too many": lambda arrays: arrays.update({"1/words": arrays["0/words"]}),
    "a device out of range": first_number("0/device", 7),
    "a negative device": first_number("0/device", -1),
    "a kernel out of range": first_number("0/kernel", 1),
    "a negative kernel": first_number("0/kernel", NO_KERNEL - 1),
    "a value out of range": first_number("0/values", 3),
    "a negative value": first_number("0/values", -1),
    "an infinite size": first_number("0/points", np.inf),
    "a slowness that is no number": first_number("0/slowness", np.nan),
    "a shorter array": replaced("0/typical", lambda array: array[1:]),
    "another type": replaced("0/slowness", lambda array: array.astype(np.float64)),
    "a flat array": replaced("0/values", lambda array: array.reshape(-1)),
    "no entry": lambda arrays: arrays.update({name: array[:0] for name, array in arrays.items() if name != "0/facts"}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_table_that_does_not_fit_is_refused(damage: str) -> None:
    arrays = WINNERS.arrays()
    DAMAGES[damage](arrays)
    with pytest.raises(CheckpointError, match="its table of winners"):
        Winners.read(WINNERS.about, arrays, KERNELS)
    with pytest.raises(CheckpointError, match="its table of winners"):
        Winners.read(WINNERS.about, WINNERS.arrays(), [])
