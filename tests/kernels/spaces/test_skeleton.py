"""Skeletons and tables of values give the rows and quantities that enumeration and evaluation give."""

from __future__ import annotations

import itertools
import threading
from dataclasses import replace

import numpy as np
import pytest

from seqtune.kernels.enumeration import enumerate_rows
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, Setting
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.spaces.row_cache import Names
from seqtune.kernels.spaces.skeleton import LazySkeleton, Skeleton
from seqtune.kernels.spaces.value_tables import RowValues, tables_of
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


def test_integers_of_more_than_64_bits_have_no_table() -> None:
    family = Kernel.of(
        name="recorded.toy", operation="recorded", meaning="", default={"a": 1},
        parameters=(Parameter("a", (1, 2**40)),), derived=(("cells", "a * a * size"),))
    tables = tables_of(family, (("size", 3),))
    assert tables.at("cells", {0: np.zeros(2, np.intp)}) is None
    without = replace(family, constraints=(Constraint.of("cells > 0", "is something"),))
    assert len(enumerate_rows(without, (("size", 3),))) == 2


PARAMETERS = (Parameter("a", (1, 2, 3, 4, 6)), Parameter("b", ("rows", "columns")), Parameter("c", (0, 1, 2, 5, 7)),
              Parameter("d", (8,)), Parameter("e", (1, 2, 4, 8, 16, 32)))
CONSTRAINTS = [
    (), ("n > 3",), ("n > 99",), ("True",), ("a < 4",), ("a < 0",), ("e < 0",), ("a * c <= n",), ("a * e == n",),
    ("b == 'rows' or a > 2", "n % e == 0", "c < e"), ("n // c > 1",), ("c == 0 or n // c > 1",), ("not n % c",),
    ("n % c == 0 if c else a > 2", "n // (a - c) % 2 == 0"), ("waste < 1.5",), ("lanes % 3 == 0", "c != 2"),
    ("lanes <= n", "lanes * c < 40", "word == b"), ("d == 8", "a + c + e < 12", "n % 2 == 1 or e > 4"),
    ("a == 6", "c == 7", "e == 32", "b == 'columns'"), ("a ** c < n",), ("b",), ("n // c % 1.5 < 2",),
    ("a * n < 2 ** 5",), ("a * n < 2 ** 5 or e ** 2 == n",), ("e << (a * 12) > n",),
    ("{1: 1, 2: 2, 3: 3, 4: 4, 6: 6}[a] * n ** 12 * n ** 12 > n",)]


def toy(constraints: tuple[str, ...], parameters: tuple[Parameter, ...] = PARAMETERS) -> Kernel:
    return Kernel("toy.space", "gemm", ("toy",), parameters, tuple(
        Constraint.of(text, "so it is") for text in constraints), (), derived=(
            ("lanes", Expression("a * (c + 1)")), ("waste", Expression("round_up(n, e) / n + lanes * 0"))))


def identity_of(family: Kernel, **values: float | str) -> Names:
    """The values of the names that the kernel's rows depend on."""
    return tuple((name, values[name]) for name in family.split_derived()[1])


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=" & ".join)
def test_the_rows_of_each_problem_are_those_of_enumeration(constraints: tuple[str, ...]) -> None:
    for order in range(3):
        family = toy(constraints, (*PARAMETERS[order:], *PARAMETERS[:order]))
        source = LazySkeleton(family, ())
        for n, word in itertools.product((1, 12, 64, 97), ("rows", "none")):
            values = identity_of(family, n=n, word=word)
            rows, wanted = source.rows(values), enumerate_rows(family, values)
            np.testing.assert_array_equal(rows, wanted)
            assert rows.dtype == wanted.dtype


@pytest.mark.parametrize("values", [(0.25, 0.5, 1.0), (True, False), (1, 1.0, True)])
def test_fractions_and_booleans_have_the_plain_rows(values: tuple[Setting, ...]) -> None:
    family = toy(("x * a <= 2", "x != 1 or c == 2", "a * n < 48"), (*PARAMETERS, Parameter("x", values)))
    source = LazySkeleton(family, ())
    for _ in range(2):
        rows = source.rows(identity_of(family, n=12))
    wanted = []
    for index in itertools.product(*(range(len(parameter.values)) for parameter in family.parameters)):
        a, c, x = PARAMETERS[0].values[index[0]], PARAMETERS[2].values[index[2]], float(values[index[5]])
        if x * float(a) <= 2 and (x != 1 or c == 2) and float(a) < 4:
            wanted.append(list(index))
    assert rows.tolist() == wanted


def test_threads_find_rows_at_once() -> None:
    sources = [LazySkeleton(toy(constraints), ()) for constraints in CONSTRAINTS[:12]]
    wrong: list[str] = []

    def find(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(60):
            number = int(generator.integers(len(sources)))
            family = toy(CONSTRAINTS[number])
            values = identity_of(family, n=int(generator.integers(1, 100)), word="rows")
            if not np.array_equal(sources[number].rows(values), enumerate_rows(family, values)):
                wrong.append(family.constraints[0].expression.text)

    threads = [threading.Thread(target=find, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
