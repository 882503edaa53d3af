from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from seqtune.errors import ConfigurationError, KernelError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

DEVICE = Device("recorded:test", "recorded", "none", "none", local_memory=64)
PROBLEM = Problem.make("recorded", size=12, wide=5)
NAMES = ("p", "q", "r", "s")

CONDITIONS = st.sampled_from(
    [
        "p * q <= local_memory",
        "p + r >= 3",
        "size % q == 0 if q else s == 1",
        "area <= 40",
        "area % 2 == 0 or s == 1",
        "p != r",
        "p in (1, 2, 4)",
        "p <= q",
        "q * r + s < size * wide",
        "r if p > 2 else s < 4",
        "gcd(p, s) == 1",
        "twice < 12",
        "wide > 3",
        "wide > 30",
        "not (p == 2 and s == 3)",
        "ceil_div(size, max(p, 1)) * r <= 24",
        "12 // s >= r if s else 0",
        "p < q <= r + 2",
    ]
)


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    lists = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
    parameters = tuple(Parameter(name, tuple(draw(lists))) for name in NAMES)
    constraints = tuple(
        Constraint.of(text, f"because {text}") for text in draw(st.lists(CONDITIONS, max_size=4, unique=True))
    )
    wish = tuple((name, draw(st.integers(0, 9))) for name in NAMES)
    return Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        parameters,
        constraints,
        wish,
        derived=(("area", Expression("p * q")), ("twice", Expression("2 * s + size - 12"))),
    )


def brute_force(kernel: Kernel) -> list[tuple[Setting, ...]]:
    """Every combination, in order of the value lists, that no constraint refuses."""
    found = []
    for values in itertools.product(*(parameter.values for parameter in kernel.parameters)):
        names: dict[str, Any] = {**DEVICE.names(), **PROBLEM.names(), **dict(zip(NAMES, values, strict=True))}
        for name, expression in kernel.derived:
            names[name] = expression(names)
        if all(constraint.expression(names) for constraint in kernel.constraints):
            found.append(values)
    return found


def values_of(configuration: Configuration) -> tuple[Setting, ...]:
    return tuple(value for _, value in configuration.settings)


@settings(max_examples=150, deadline=None)
@given(kernels())
def test_the_space_is_what_brute_force_finds_in_the_same_order(kernel: Kernel) -> None:
    space = SearchSpace(kernel, PROBLEM, DEVICE)
    assert [values_of(configuration) for configuration in space] == brute_force(kernel)
    assert len(space) == len(brute_force(kernel))
    assert sorted(map(tuple, space.rows.tolist())) == list(map(tuple, space.rows.tolist()))


@settings(max_examples=100, deadline=None)
@given(kernels())
def test_the_look_ahead_agrees_with_brute_force_and_never_dead_ends(kernel: Kernel) -> None:
    space, valid = SearchSpace(kernel, PROBLEM, DEVICE), brute_force(kernel)

    def walk(begin: int, end: int, prefix: tuple[Setting, ...]) -> int:
        column = len(prefix)
        if column == len(NAMES):
            assert end == begin + 1
            assert values_of(space[begin]) == prefix
            return 1
        _, *found = space.next_ranges(np.array([begin]), np.array([end]), column)
        steps = list(zip(*(numbers.tolist() for numbers in found), strict=True))  # index of a value; its rows
        offered = [kernel.parameters[column].values[index] for index, _, _ in steps]
        allowed = {values[column] for values in valid if values[:column] == prefix}
        assert offered == [value for value in kernel.parameters[column].values if value in allowed]
        return sum(walk(first, last, (*prefix, word)) for (_, first, last), word in zip(steps, offered, strict=True))

    assert walk(0, len(space), ()) == len(valid)


@settings(max_examples=100, deadline=None)
@given(kernels())
def test_membership_row_and_reason_agree(kernel: Kernel) -> None:
    space, valid = SearchSpace(kernel, PROBLEM, DEVICE), set(brute_force(kernel))
    for number, configuration in enumerate(space):
        assert space.row(configuration) == number
    for values in itertools.product(*(parameter.values for parameter in kernel.parameters)):
        configuration = Configuration.of(kernel.name, zip(NAMES, values, strict=True))
        assert (configuration in space) == (values in valid)
        reason = space.why_not(configuration)
        assert (reason is None) == (values in valid)
        if reason is not None:
            assert reason.startswith("because ")
            with pytest.raises(ConfigurationError, match="because"):
                space.row(configuration)


@settings(max_examples=100, deadline=None)
@given(kernels(), st.integers(0, 2**32))
def test_samples_neighbours_and_defaults_are_valid(kernel: Kernel, seed: int) -> None:
    space, valid = SearchSpace(kernel, PROBLEM, DEVICE), brute_force(kernel)
    if not valid:
        assert space.sample(np.random.default_rng(seed), 3) == []
        with pytest.raises(KernelError, match="no valid configuration"):
            _ = space.default
        return
    sample = space.sample(np.random.default_rng(seed), 5)
    assert sample == space.sample(np.random.default_rng(seed), 5)
    assert len(set(sample)) == len(sample) == min(5, len(valid))
    assert all(configuration in space for configuration in sample)

    wish = dict(kernel.default)

    def changes(values: tuple[Setting, ...]) -> int:
        known = [
            (value, wish[p.name])
            for value, p in zip(values, kernel.parameters, strict=True)
            if wish[p.name] in p.values
        ]
        return sum(value != wished for value, wished in known)

    assert values_of(space.default) in valid
    assert changes(values_of(space.default)) == min(map(changes, valid))

    here = values_of(sample[0])
    apart = [values for values in valid if sum(map(int.__ne__, map(int, values), map(int, here))) == 1]
    assert sorted(values_of(space[int(row)]) for row in Task(PROBLEM, DEVICE, (space,)).neighbours(
        space.row(sample[0])).numbers) == sorted(apart)


def test_sampling_is_uniform() -> None:
    kernel = Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        (Parameter("p", (1, 2, 3)), Parameter("q", (1, 2, 3))),
        (Constraint.of("p == 1 or q == 1", "cross"),),
        (),
    )
    space = SearchSpace(kernel, PROBLEM, DEVICE)  # five configurations, three of them under p=1
    generator = np.random.default_rng(0)
    counts = np.zeros(len(space))
    for _ in range(3000):
        counts[space.row(space.sample(generator, 1)[0])] += 1
    assert counts.sum() == 3000
    assert np.all(np.abs(counts - 600) < 100)  # 4.5 standard deviations


@settings(max_examples=50, deadline=None)
@given(kernels())
def test_columns_hold_every_parameter_and_derived_quantity(kernel: Kernel) -> None:
    space = SearchSpace(kernel, PROBLEM, DEVICE)
    assume(len(space))
    columns = space.columns()
    assert columns["area"].tolist() == [int(c["p"]) * int(c["q"]) for c in space]
    assert columns["twice"].tolist() == [2 * int(c["s"]) for c in space]


def test_strange_configurations_are_refused_with_a_reason() -> None:
    kernel = Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        (Parameter("p", (1, 2)), Parameter("q", ("on", "off", 3))),
        (Constraint.of("q == 3 or p == 1", "only 3 goes with p=2"),),
        (("p", 2), ("q", "off")),
    )
    space = SearchSpace(kernel, PROBLEM, DEVICE)
    assert [values_of(c) for c in space] == [(1, "on"), (1, "off"), (1, 3), (2, 3)]
    for settings_, reason in (
        ((("p", 1),), "q is missing"),
        ((("p", 5), ("q", 3)), "p=5 is not one of 1, 2"),
        ((("p", 1), ("q", 3), ("z", 1)), "no parameter 'z'"),
        ((("p", 1), ("q", 3), ("q", 3)), "given twice"),
        ((("p", 2), ("q", "on")), "only 3 goes with p=2"),
    ):
        assert reason in str(space.why_not(Configuration("recorded.test", settings_)))
    assert "not of recorded.test" in str(space.why_not(Configuration("other", ())))
    assert "p=1" not in space
    assert space.row(Configuration("recorded.test", (("q", 3), ("p", 2)))) == 3


def test_a_space_whose_constraints_need_an_unknown_feature_is_refused() -> None:
    kernel = Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        (Parameter("p", (1, 2)),),
        (Constraint.of("p <= depth", "deep"),),
        (),
    )
    with pytest.raises(KernelError, match="needs to know depth"):
        SearchSpace(kernel, PROBLEM, DEVICE)
    with pytest.raises(KernelError, match="needs to know depth"):
        SearchSpace(kernel, Problem.make("recorded", depth=None), DEVICE)
    assert len(SearchSpace(kernel, Problem.make("recorded", depth=1), DEVICE)) == 1


def test_equal_names_share_rows_and_other_limits_do_not() -> None:
    kernel = Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        (Parameter("p", (1, 2, 4)),),
        (Constraint.of("p <= size", "fits"),),
        (),
    )
    two, also_two = (SearchSpace(kernel, Problem.make("recorded", size=2, wide=wide), DEVICE) for wide in (1, 9))
    four = SearchSpace(kernel, Problem.make("recorded", size=4), DEVICE)
    assert two.rows is also_two.rows
    assert (len(two), len(four)) == (2, 3)
    with pytest.raises(ValueError, match="read-only"):
        two.rows[0, 0] = 1


def test_a_space_too_large_to_enumerate_is_refused() -> None:
    parameters = tuple(Parameter(f"p{index}", tuple(range(100))) for index in range(5))
    kernel = Kernel("recorded.huge", "recorded", ("recorded",), parameters, (), ())
    with pytest.raises(KernelError, match="add constraints"):
        SearchSpace(kernel, PROBLEM, DEVICE)


def test_the_nearest_configuration_changes_few_parameters_before_it_takes_small_steps() -> None:
    kernel = Kernel(
        "recorded.test",
        "recorded",
        ("recorded",),
        (Parameter("p", tuple(range(10))), Parameter("q", tuple(range(10)))),
        (Constraint.of("(p == 9 and q == 5) or (p == 6 and q == 6) or (p == 1 and q == 5)", "three"),),
        (("p", 5), ("q", 5)),
    )
    space = SearchSpace(kernel, PROBLEM, DEVICE)
    assert values_of(space.default) == (1, 5)  # one far change, the first of two equally far, not two small ones
    assert values_of(space.nearest({"p": 6})) == (6, 6)  # what is left out is free
    assert values_of(space.nearest({"p": 77, "q": 6})) == (6, 6)  # so is what no longer exists
