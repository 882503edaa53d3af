"""Tasks: one numbering over all spaces, neighbours, random steps, and times by number."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.errors import ConfigurationError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import MeasuredTask, Task

DEVICE = Device("test:1", "test", "paper", "none")
PROBLEM = Problem.make("gemm", m=30, n=40, k=50)


def kernel(name: str) -> Kernel:
    """Three numeric parameters, one of them in no order, and a word."""
    return Kernel(name, "gemm", ("test",), (
        Parameter("block", (8, 1, 2, 4, 16)), Parameter("tile", (1, 2, 3, 4)),
        Parameter("order", ("rows", "columns", "blocks")), Parameter("pad", (0, 1))), (
            Constraint.of("block * tile <= 32", "too large"),
            Constraint.of("pad == 0 or block % (tile * 2) == 0", "no padding")), (("block", 4),))


TASK = Task.of(PROBLEM, DEVICE, [kernel("test.one"), kernel("test.two")])


def test_numbers_count_through_the_spaces_in_order() -> None:
    configurations = [configuration for space in TASK.spaces for configuration in space]
    assert len(TASK) == len(configurations)
    assert list(TASK) == [TASK[number] for number in range(len(TASK))] == configurations
    assert [TASK.number(configuration) for configuration in configurations] == list(range(len(TASK)))
    assert [TASK.find(configuration) for configuration in configurations] == list(range(len(TASK)))
    first, second = TASK.spaces
    assert [(space, part.start, part.stop) for space, part in TASK.parts()] == [
        (first, 0, len(first)), (second, len(first), len(TASK))]
    assert TASK.default == first.default
    assert [one.name for one in TASK.kernels] == ["test.one", "test.two"]
    for number in (-1, len(TASK)):
        with pytest.raises(IndexError):
            TASK.locate(number)


def test_configurations_that_are_not_valid_have_no_number() -> None:
    stranger = Configuration.of("test.none", {})
    settings: dict[str, int | str] = {"block": 16, "tile": 4, "order": "rows", "pad": 0}
    large = Configuration.of("test.two", settings)
    assert TASK.find(stranger) is None
    assert TASK.find(large) is None
    with pytest.raises(ConfigurationError, match="does not solve"):
        TASK.number(stranger)
    with pytest.raises(ConfigurationError, match="too large"):
        TASK.number(large)


def test_many_configurations_of_a_kernel_are_found_at_once() -> None:
    begin = len(TASK.spaces[0])
    valid = begin, begin + 17, len(TASK) - 1
    settings: list[dict[str, Setting]] = [dict(TASK[number].settings) for number in valid]
    settings += [{**settings[0], "block": 5}, {"block": 8}]
    assert TASK.numbers("test.two", settings).tolist() == [*valid, -1, -1]
    assert TASK.numbers("test.none", settings).tolist() == [-1] * 5
    assert TASK.numbers("test.two", []).tolist() == []


def test_neighbours_differ_in_one_parameter_and_are_all_there_are() -> None:
    begin = len(TASK.spaces[0])
    for number in (0, 17, begin - 1, begin, len(TASK) - 1):
        here, near = TASK[number], TASK.neighbours(number)
        differing = {other: [column for column, setting in enumerate(TASK[other].settings)
                             if setting != here.settings[column]]
                     for other in range(len(TASK)) if TASK[other].kernel == here.kernel}
        wanted = {other: columns[0] for other, columns in differing.items() if len(columns) == 1}
        assert dict(zip(near.numbers.tolist(), near.columns.tolist(), strict=True)) == wanted
        assert set(TASK.differences(number, near.numbers)) == {1}
        assert set(TASK.differences(number, np.array([begin if number < begin else 0]))) == {4}


def test_random_steps_lead_to_neighbours_and_reach_a_whole_space() -> None:
    generator = np.random.default_rng(0)
    numbers = np.arange(len(TASK))
    moved = TASK.step(numbers, generator, tries=30)
    stepped = np.flatnonzero(moved != numbers)
    assert len(stepped) > 0.9 * len(TASK)
    assert all(moved[number] in TASK.neighbours(number).numbers for number in stepped.tolist())
    seen, walk = {0}, np.array([0])
    for _ in range(2000):
        walk = TASK.step(walk, generator)
        seen.add(int(walk[0]))
    assert seen == set(range(len(TASK.spaces[0])))


def test_a_narrowed_task_keeps_the_chosen_configurations_in_order() -> None:
    keep = np.zeros(len(TASK), bool)
    keep[[3, 4, 40]] = True
    small = TASK.narrowed(keep)
    assert list(small) == [TASK[3], TASK[4], TASK[40]]
    keep[len(TASK.spaces[0]):] = False
    assert [space.kernel.name for space in TASK.narrowed(keep).spaces] == ["test.one"]
    nothing = TASK.narrowed(np.zeros(len(TASK), bool))
    assert (len(nothing), list(nothing)) == (0, [])
    with pytest.raises(KernelError, match="no kernel solves"):
        _ = nothing.default


def test_a_measured_task_knows_times_by_number() -> None:
    seconds = np.full(len(TASK), np.nan)
    seconds[[2, 5, 9]] = 2.0, np.inf, 1.0
    measured = MeasuredTask(TASK, seconds)
    assert (measured.problem, measured.device, measured.label) == (PROBLEM, DEVICE, (PROBLEM.key, DEVICE.name))
    assert (measured.best, measured.time(TASK[2]), measured.time(TASK[5])) == (1.0, 2.0, np.inf)
    assert measured.shares()[[2, 5, 9]].tolist() == [0.5, 0.0, 1.0]
    small = measured.measured_only()
    assert list(small.task) == [TASK[2], TASK[5], TASK[9]]
    assert small.seconds.tolist() == [2.0, np.inf, 1.0]
