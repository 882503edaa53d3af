"""Programs find the rows that enumeration finds, with the borders of their prefixes."""

from __future__ import annotations

import itertools
import math
import threading

import numpy as np
import pytest

from seqtune.errors import KernelError, SeqtuneError
from seqtune.kernels.enumeration import enumerate_rows
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Constraint, Kernel, Parameter, Setting
from seqtune.kernels.miopen.solver import SOLVERS, find_solver
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.row_index import PrefixBorders
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.spaces.row_cache import Names, ValidRows
from seqtune.kernels.spaces.skeleton import valid_rows
from seqtune.predictor.sequence import space_program as module
from seqtune.predictor.sequence.space_program import SpaceProgram, program_rows, space_program
from tests.support.devices import DEVICES
from tests.support.random_problems import some_problems

PARAMETERS = (Parameter("a", (1, 2, 3, 4, 6)), Parameter("b", ("rows", "columns")), Parameter("c", (0, 1, 2, 5, 7)),
              Parameter("d", (8,)), Parameter("e", (1, 2, 4, 8, 16, 32)))
CONSTRAINTS = [
    (), ("n > 3",), ("n > 99",), ("True",), ("a < 4",), ("a < 0",), ("e < 0",), ("a * c <= n",), ("a * e == n",),
    ("b == 'rows' or a > 2", "n % e == 0", "c < e"), ("n // c > 1",), ("c == 0 or n // c > 1",), ("not n % c",),
    ("n % c == 0 if c else a > 2", "n // (a - c) % 2 == 0"), ("waste < 1.5",), ("lanes % 3 == 0", "c != 2"),
    ("lanes <= n", "lanes * c < 40", "word == b"), ("d == 8", "a + c + e < 12", "n % 2 == 1 or e > 4"),
    ("a == 6", "c == 7", "e == 32", "b == 'columns'")]


def toy(constraints: tuple[str, ...], parameters: tuple[Parameter, ...] = PARAMETERS) -> Kernel:
    return Kernel("toy.space", "gemm", ("toy",), parameters, tuple(
        Constraint.of(text, "so it is") for text in constraints), (), derived=(
            ("lanes", Expression("a * (c + 1)")), ("waste", Expression("round_up(n, e) / n + lanes * 0"))))


def identity(family: Kernel, **values: float | str) -> Names:
    """The values of the names that the kernel's rows depend on."""
    return tuple((name, values[name]) for name in family.split_derived()[1])


def compiled(family: Kernel, values: Names) -> SpaceProgram | None:
    return space_program(family, tuple(type(value) for _, value in values))


def compare(family: Kernel, values: Names) -> ValidRows:
    """The rows of the program, which must be those of the enumeration."""
    program = compiled(family, values)
    assert program is not None, family.name
    found, wanted = program.rows(values), enumerate_rows(family, values)
    assert found is not None, family.name
    np.testing.assert_array_equal(found.rows, wanted)
    assert found.rows.dtype == wanted.dtype
    assert not found.rows.flags.writeable
    borders = PrefixBorders(wanted)
    for column in range(len(family.parameters)):
        np.testing.assert_array_equal(found.borders.of(column), borders.of(column))
    return found


@pytest.mark.parametrize("constraints", CONSTRAINTS, ids=" & ".join)
def test_a_program_finds_the_rows_of_a_small_kernel(constraints: tuple[str, ...]) -> None:
    for n, word, order in itertools.product((1, 12, 64, 97), ("rows", "none"), range(3)):
        moved = (*PARAMETERS[order:], *PARAMETERS[:order])
        family = toy(constraints, moved)
        compare(family, identity(family, n=n, word=word))


def test_the_rows_of_all_kernels_are_those_of_the_enumeration() -> None:
    shipped = [*(kernel(name) for name in names() if name.partition(".")[0] in DEVICES),  # no fakes of other tests
               *(find_solver(name).kernel for name in SOLVERS)]
    sizes: list[int] = []

    def find(family: Kernel, values: Names, facts: frozenset[str]) -> ValidRows:
        if math.prod(len(parameter.values) for parameter in family.parameters) > 2_000_000 and len(sizes) % 5:
            return valid_rows(family, values, facts)  # enumerating takes its time
        found = compare(family, values)
        sizes.append(len(found.rows))
        return found

    for family in shipped:
        for problem in some_problems(family.operation, 5, 31):  # no other test asks for them: their rows are not known
            for device in DEVICES.values():
                try:
                    SearchSpace(family, problem, device, find)
                except SeqtuneError:
                    continue
    assert len(sizes) >= 50
    assert 0 in sizes



@pytest.mark.parametrize("text", ["a ** c < 9", "b", "n // c % 1.5 < 2", "a // rate > 1"])
def test_a_kernel_without_a_program_is_enumerated(text: str) -> None:
    family = toy((text,))
    values = identity(family, n=12, word="rows", rate=1.5)
    assert compiled(family, values) is None
    found = program_rows(family, values, frozenset())
    np.testing.assert_array_equal(found.rows, enumerate_rows(family, values))


@pytest.mark.parametrize("text", ["e << (a * 12) > 0", "{1: 1, 2: 2, 3: 3, 4: 4, 6: 6}[a] * n * n * n > 0"])
def test_rows_with_large_numbers_are_enumerated(text: str) -> None:
    family = toy((text,))
    values = identity(family, n=1 << 40)
    program = compiled(family, values)
    assert program is not None
    assert program.rows(values) is None
    found = program_rows(family, values, frozenset())
    np.testing.assert_array_equal(found.rows, enumerate_rows(family, values))


def test_too_many_prefixes_are_refused_as_by_the_enumeration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CANDIDATES", 100)
    values = identity(toy(()), n=12)
    program = compiled(toy(()), values)
    assert program is not None
    assert program.rows(values) is None
    assert len(program_rows(toy(()), values, frozenset()).rows) == 300
    many = toy((), tuple(Parameter(name, tuple(range(100))) for name in "abcde"))
    with pytest.raises(KernelError, match="partial configurations"):
        program_rows(many, values, frozenset())


def test_threads_find_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_KEPT", 500)  # some buffers are kept, some are not
    families = [toy(constraints) for constraints in CONSTRAINTS]
    wrong: list[str] = []

    def find(seed: int) -> None:
        generator = np.random.default_rng(seed)
        for _ in range(60):
            family = families[int(generator.integers(len(families)))]
            values = identity(family, n=int(generator.integers(1, 100)), word="rows")
            if not np.array_equal(program_rows(family, values, frozenset()).rows, enumerate_rows(family, values)):
                wrong.append(family.constraints[0].expression.text)

    threads = [threading.Thread(target=find, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("values", [(0.25, 0.5, 1.0), (True, False), (1, 1.0, True)])
def test_kernels_with_fractions_or_booleans_have_no_program_and_the_plain_rows(values: tuple[Setting, ...]) -> None:
    family = toy(("x * a <= 2", "x != 1 or c == 2", "a < 4"), (*PARAMETERS, Parameter("x", values)))
    names = identity(family, n=12)
    assert compiled(family, names) is None
    rows = program_rows(family, names, frozenset()).rows
    np.testing.assert_array_equal(rows, enumerate_rows(family, names))
    wanted = []
    for index in itertools.product(*(range(len(parameter.values)) for parameter in family.parameters)):
        a, c, x = PARAMETERS[0].values[index[0]], PARAMETERS[2].values[index[2]], float(values[index[5]])
        if x * float(a) <= 2 and (x != 1 or c == 2) and float(a) < 4:
            wanted.append(list(index))
    assert rows[:, :6].tolist() == wanted
