"""Skeletons and tables of values give the rows and quantities that enumeration and evaluation give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.devices.device import Device
from seqtune.kernels.enumeration import enumerate_rows
from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.spaces.row_values import RowValues
from seqtune.kernels.spaces.skeleton import Skeleton
from seqtune.kernels.spaces.value_tables import tables_of
from tests.support.devices import DEVICES, device_of

NAMES = [name for name in names() if kernel(name).backends[0] in DEVICES]
FEW = 300  # rows whose quantities are compared


def spaces(name: str, count: int) -> list[SearchSpace]:
    """Spaces of a kernel for problems that it solves."""
    family, device = kernel(name), device_of(kernel(name).backends[0])
    solved = [problem for kind in ("conv2d", "gemm") if kind == family.operation
              for problem in sample_problems(kind, 150, 5) if family.why_not(problem, device) is None]
    return [SearchSpace(family, problem, device) for problem in solved[:count]]


@pytest.mark.parametrize("name", NAMES)
def test_a_skeleton_has_the_rows_that_enumeration_finds(name: str) -> None:
    some = spaces(name, 4)
    if not some:
        pytest.skip("the sampler has no problem for it")
    facts = set(some[0].device.names())
    identity = some[0].identity
    assert identity is not None
    skeleton = Skeleton.of(kernel(name), tuple(item for item in identity if item[0] in facts))
    for space in some:
        assert space.identity is not None
        rows = None if skeleton is None else skeleton.rows(space.identity)
        expected = enumerate_rows(kernel(name), space.identity)
        assert np.array_equal(space.rows, expected)
        assert rows is None or (rows.dtype == expected.dtype and np.array_equal(rows, expected))


@pytest.mark.parametrize("name", NAMES)
def test_tables_have_the_quantities_that_evaluation_gives(name: str) -> None:
    for space in spaces(name, 2):
        assert space.identity is not None
        names = {**space.device.names(), **space.problem.names()}
        looked_up = RowValues(kernel(name), names, space.rows[:FEW], tables_of(kernel(name), space.identity), {})
        evaluated = RowValues(kernel(name), names, space.rows[:FEW], None, {})
        for quantity, _ in kernel(name).derived:
            first, second = looked_up.column(quantity), evaluated.column(quantity)
            assert first.dtype.kind == second.dtype.kind
            assert np.array_equal(first, second, equal_nan=first.dtype.kind == "f")


def test_problems_that_a_constraint_excludes_have_no_rows() -> None:
    family = Kernel.of(
        name="recorded.toy", operation="recorded", meaning="", default={"a": 1, "b": 1},
        parameters=(Parameter("a", (1, 2, 4)), Parameter("b", (1, 2, 3))),
        constraints=(("a * b <= size", "fits"), ("size > 1", "is not tiny"), ("a > 1 or b > 1", "is a tile")))
    skeleton = Skeleton.of(family, ())
    assert skeleton is not None
    for size, rows in ((1, 0), (2, 2), (12, 8)):
        found = skeleton.rows((("size", size),))
        assert found is not None
        assert np.array_equal(found, enumerate_rows(family, (("size", size),)))
        assert len(found) == rows


def test_values_that_only_a_problem_excludes_leave_the_space_to_enumeration() -> None:
    family = Kernel.of(
        name="recorded.toy", operation="recorded", meaning="", default={"a": 1}, parameters=(Parameter("a", (1, 70)),),
        derived=(("lanes", "a << 2"),), constraints=(("a <= size", "fits"), ("1 << a <= size", "is a power")))
    assert np.array_equal(SearchSpace(family, Problem.make("recorded", size=8), _recorded()).rows, [[0]])
    skeleton = Skeleton.of(family, ())
    assert skeleton is None or skeleton.rows((("size", 8),)) is None


def test_integers_of_more_than_64_bits_have_no_table() -> None:
    family = Kernel.of(
        name="recorded.toy", operation="recorded", meaning="", default={"a": 1},
        parameters=(Parameter("a", (1, 2**40)),), derived=(("cells", "a * a * size"),))
    tables = tables_of(family, (("size", 3),))
    assert tables.at("cells", {0: np.zeros(2, np.intp)}) is None
    without = replace(family, constraints=(Constraint.of("cells > 0", "is something"),))
    assert len(enumerate_rows(without, (("size", 3),))) == 2


def _recorded() -> Device:
    return Device("recorded:any", "recorded", "unknown", "none")
