"""Programs give the numbers of the expressions to the last bit, or leave them to the expressions."""

from __future__ import annotations

import ast
import math

import numpy as np
import pytest

from seqtune.errors import SeqtuneError
from seqtune.kernels.expression import Expression
from seqtune.kernels.kernel import Kernel, Parameter
from seqtune.kernels.miopen.solver import SOLVERS, find_solver
from seqtune.kernels.registry import kernel, names
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.sequence.program import KernelProgram, types_of
from seqtune.predictor.sequence.program_text import LARGEST
from tests.support.devices import DEVICES
from tests.support.random_problems import some_problems

VALUES = {"few": (1, 2, 3, 5, 8), "below": (-7, -1, 0, 4, 9), "size": (16, 100, 999), "order": ("rows", "columns", "")}
NAMES = {"w": 14, "h": 57, "zero": 0, "rate": 2.5, "layout": "NCHW", "dtype": "fp32", "odd": "something"}
CASES = [
    "few + below * size - 3", "-below", "+few", "below // few", "below % few", "size // below", "size % below",
    "few // zero", "few / (zero * w) + w // zero", "few % zero",
    "size / below", "size / few", "rate * few", "few / rate + below", "w // few",
    "ceil_div(w, few) * few", "round_up(h, few) - h", "ceil_div(below, few)", "min(few, below, 3)", "max(few, rate)",
    "min(size, w) / h", "gcd(size, few)", "gcd(below, size)", "size << few", "size >> few", "below & 7", "below | few",
    "below ^ size", "few < below", "few <= 3 < size", "few in (1, 3, w)", "few not in (2, 5)", "order == 'rows'",
    "order != layout", "order in ('rows', 'none')", "layout == 'NCHW' and few > 2", "few > 2 or below",
    "below and size", "below or size", "few and 0.5", "not below", "not (few > 2)", "1 if below else 2.5",
    "size if order == 'rows' else few", "{'rows': 3, 'columns': 4, '': 5}[order]",
    "{'fp32': 4, 'fp16': 2}[dtype] * few",
    "{1: 2, 2: 3, 3: 4, 5: 6, 8: 9}[few]", "True if few > 2 else below", "(few > 2) + (below > 0)", "odd == layout",
    "odd == 'something'", "few % 3 == 0 and size % few == 0", "order"]
UNWRITABLE = ["few ** 2", "abs(below)", "rate // few", "rate % few", "lcm(few, size)", "few + missing"]
AGAINST_THEM = ["size << (few * 8)", "size * size * size * size * size * size * size", "few << (0 - few)",
                "{1: 2}[few]", "w // zero", "w / (zero * h)", "w % zero"]


def toy(text: str) -> Kernel:
    return Kernel("toy.quantity", "conv2d", ("toy",), tuple(
        Parameter(name, values) for name, values in VALUES.items()), (), (), derived=(("wanted", Expression(text)),))


def all_rows() -> tuple[np.ndarray, np.ndarray]:
    table = np.indices([len(values) for values in VALUES.values()]).reshape(len(VALUES), -1).T.astype(np.int16)
    return table, np.random.default_rng(0).permutation(len(table)).astype(np.int64)


def computed(text: str) -> tuple[tuple[str, ...] | None, np.ndarray | None]:
    """The names of the program's quantities, and the numbers of the only one."""
    wanted, given = toy(text), {name: value for name, value in NAMES.items() if name in ast.unparse(ast.parse(text))}
    program = KernelProgram(wanted, types_of(wanted, given), (("wanted",),))
    found, inputs = program.names(("wanted",)), program.inputs(given)
    if not found:
        return found, None
    assert inputs is not None
    values = program.run(("wanted",), inputs, *all_rows())
    return found, None if values is None else values[0]


@pytest.mark.parametrize("text", CASES)
def test_a_program_gives_the_numbers_of_its_expression(text: str) -> None:
    table, rows = all_rows()
    columns = {name: np.array(values)[table[rows, column]] for column, (name, values) in enumerate(VALUES.items())}
    wanted = np.broadcast_to(np.asarray(Expression(text)({**NAMES, **columns})), len(rows))
    found, values = computed(text)
    if wanted.dtype.kind == "U":
        assert found == ()
    elif wanted.dtype == object:  # undefined in some rows
        assert values is None
    else:
        assert values is not None
        np.testing.assert_array_equal(values, wanted.astype(np.float64))


@pytest.mark.parametrize("text", UNWRITABLE)
def test_an_expression_without_a_program_is_left_to_the_caller(text: str) -> None:
    assert computed(text) == (None, None)


@pytest.mark.parametrize("text", AGAINST_THEM)
def test_numbers_that_expressions_treat_otherwise_are_left_to_the_caller(text: str) -> None:
    assert computed(text) == (("wanted",), None)


@pytest.mark.parametrize(("a", "b"), [(LARGEST - 1, 1), (LARGEST - 1, 3), (1 - LARGEST, 3), (LARGEST - 1, LARGEST - 2),
                                      (LARGEST - 2, LARGEST - 1), (6004799503160661, 3)])
def test_quotients_of_large_numbers_are_exact(a: int, b: int) -> None:
    one = Kernel("toy.one", "conv2d", ("toy",), (Parameter("only", (1,)),), (), (), derived=(
        ("floor", Expression("a * only // b")), ("rest", Expression("a * only % b"))))
    wanted = ("floor", "rest")
    program = KernelProgram(one, types_of(one, {"a": a, "b": b}), (wanted,))
    inputs = program.inputs({"a": a, "b": b})
    if abs(a) >= LARGEST:
        assert inputs is None
        return
    assert inputs is not None
    values = program.run(wanted, inputs, np.zeros((1, 1), np.int16), np.zeros(3, np.int64))
    assert values is not None
    assert values[:, 0].tolist() == list(divmod(a, b))


def test_all_kernels_have_programs_for_their_quantities() -> None:
    generator = np.random.default_rng(3)
    compared = 0
    shipped = [*(kernel(name) for name in names() if name.partition(".")[0] in DEVICES),  # no fakes of other tests
               *(find_solver(name).kernel for name in SOLVERS)]
    for family in shipped:
        wanted = tuple(name for name, _ in family.derived)
        for problem in some_problems(family.operation, 4, 9):
            for device in DEVICES.values():
                try:
                    space = SearchSpace(family, problem, device)
                except SeqtuneError:
                    continue
                if not wanted or not len(space):
                    continue
                rows = generator.integers(0, len(space), 70)
                program = KernelProgram(family, types_of(family, space.names), (wanted,))
                found, inputs = program.names(wanted), program.inputs(space.names)
                assert found is not None, family.name
                assert inputs is not None
                values = program.run(wanted, inputs, space.rows, rows)
                assert values is not None, (family.name, problem.key)
                columns = space.derived_columns(wanted, rows)
                assert found == tuple(name for name in wanted if columns[name].dtype.kind in "biuf")
                for name, numbers in zip(found, values, strict=True):
                    np.testing.assert_array_equal(numbers, columns[name].astype(np.float64), f"{family.name} {name}")
                compared += math.prod(values.shape)
    assert compared > 100_000
