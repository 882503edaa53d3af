"""Exclusion: the constraint that is named where a space is empty."""

from __future__ import annotations

import pytest

from seqtune.kernels.kernel import Constraint, Kernel, Parameter
from seqtune.kernels.spaces.exclusion import excluding_constraint


@pytest.mark.parametrize(("constraints", "blamed", "alone"), [
    (("p > 4",), "p > 4", True), (("p > 1", "q > 4", "p < 2"), "q > 4", True), (("p > 1", "p < 2"), "p < 2", False),
    (("p > 1", "q > 1", "p < 2", "q > 3"), "p < 2", False), (("p > 1", "q > 1", "p + q < 4"), "p + q < 4", False),
    (("p > 1", "q < 3", "p != q", "q == 2", "p == 3", "p == 4"), "p == 4", False)])
def test_the_first_constraint_that_leaves_nothing_is_blamed(
        constraints: tuple[str, ...], blamed: str, alone: bool) -> None:
    parameters = (Parameter("p", (1, 2, 3, 4)), Parameter("q", (1, 2, 3, 4)))
    kernel = Kernel("recorded.test", "recorded", ("recorded",), parameters,
                    tuple(Constraint.of(text, "no") for text in constraints), ())
    excluding = excluding_constraint(kernel, ())
    assert excluding is not None
    assert (excluding[0].expression.text, excluding[1]) == (blamed, alone)


def test_nothing_is_blamed_where_the_space_is_too_large_to_count() -> None:
    parameters = tuple(Parameter(f"p{index}", tuple(range(100))) for index in range(4))
    kernel = Kernel("recorded.test", "recorded", ("recorded",), parameters,
                    (Constraint.of("p0 + p1 + p2 + p3 < 0", "no"),), ())
    assert excluding_constraint(kernel, ()) is None
