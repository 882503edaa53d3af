from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from seqtune.errors import ExpressionError
from seqtune.kernels.arithmetic import UndefinedError, as_column
from seqtune.kernels.expression import Expression

NAMES = ("a", "b", "c")


def _grow(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    binary = st.sampled_from(
        ["+", "-", "*", "//", "%", "/", "<", "<=", ">", ">=", "==", "!=", "and", "or", "&", "|", "^", "**", "<<", ">>"]
    )
    return st.one_of(
        st.tuples(inner, binary, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} < {t[1]} <= {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} in ({t[1]}, {t[2]}))"),
        st.tuples(inner, inner).map(lambda t: f"({t[0]} not in [{t[1]}, 3])"),
        st.tuples(st.sampled_from(["min", "max"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        inner.map(lambda t: f"(-{t})"),
        inner.map(lambda t: f"(not {t})"),
        inner.map(lambda t: f"abs({t})"),
        st.tuples(inner, st.integers(0, 5)).map(lambda t: f"({t[0]} ** {t[1]})"),
        st.tuples(inner, inner, inner, inner).map(lambda t: f"(({t[0]}, {t[1]}) < ({t[2]}, {t[3]}))"),
        st.tuples(st.sampled_from(["(({0}, {1}) == [{0}, {1}])", "([{0}, {1}] in (({0}, {1}), [{1}, {0}]))"]),
                  inner, inner).map(lambda t: t[0].format(t[1], t[2])),
        st.tuples(inner, inner, inner).map(lambda t: f"({{0: {t[0]}, 1: 2, 3: 'a'}}[{t[1]}] if {t[2]} else 4)"),
    )


LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(0, 40).map(str), st.sampled_from(["0.5", "1.5", "True", "'a'"]))
TEXTS = st.recursive(LEAVES, _grow, max_leaves=10)
VALUES = st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES})


@settings(max_examples=200, deadline=None)
@given(TEXTS, VALUES)
def test_an_expression_has_the_value_that_python_gives_it(text: str, values: dict[str, int]) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "min": min, "max": max, "abs": abs}, dict(values))
    except (ArithmeticError, TypeError, ValueError, KeyError):
        with pytest.raises(ExpressionError):
            Expression(text)(values)
        return
    try:
        found = Expression(text)(values)
    except ExpressionError as error:
        refusal = str(error)
    else:
        assert found == expected
        return
    assert "too large" in refusal or "a shift" in refusal or "on words" in refusal  # what Python does not bound, we do


COLUMNS = st.sampled_from([(0, 1, 3, 12), (0.5, 1.0, 1.5, -4.4), (1, 1.5, 2, 3), (True, False), ("a", "b", ""),
                           (2, "a", 0.5, True), (2**40, 3)])


@settings(max_examples=200, deadline=None)
@example("(0 // 0)", ((0, 1),) * 3, [(0, 0, 0)])
@given(TEXTS, st.tuples(COLUMNS, COLUMNS, COLUMNS), st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1))
def test_columns_have_the_values_of_their_rows(text: str, values: tuple[tuple[Any, ...], ...],
                                               picks: list[tuple[int, ...]]) -> None:
    expression = Expression(text)
    columns = {name: as_column(value)[[pick % len(value) for pick in column]]
               for name, value, column in zip(NAMES, values, zip(*picks, strict=True), strict=True)}
    expected: list[object] = []
    for row in range(len(picks)):
        try:
            expected.append(expression({name: column.tolist()[row] for name, column in columns.items()}))
        except UndefinedError:
            expected.append(None)
        except ExpressionError:
            with pytest.raises(ExpressionError):
                np.broadcast_to(expression(columns), len(picks)).tolist()
            return
    if not expression.names and None in expected:  # no column is read, so it is refused as over plain values
        with pytest.raises(UndefinedError):
            expression(columns)
        return
    assert np.broadcast_to(expression(columns), len(picks)).tolist() == expected


@pytest.mark.parametrize(
    "text",
    [
        "a.real",
        "a.__class__",
        "__import__('os')",
        "open('x')",
        "(lambda: 1)()",
        "[x for x in a]",
        "a[0]",
        "f'{a}'",
        "a := 1",
        "max(*a)",
        "min(a, key=b)",
        "gcd(1)",
        "a is b",
        "~a",
        "a @ b",
        "None",
        "...",
        "1j",
        "b'x'",
        "{a: 1}[2]",
        "{**a}[1]",
        "yield a",
        "await a",
        "a if b",
        "",
        "a b",
        "a; b",
        "a = 1",
        "9" * 30,
        "1e999",
        "min()",
        "print",
        "a\x00",
    ],
)
def test_everything_else_is_refused_in_one_line(text: str) -> None:
    if text == "print":
        assert Expression(text).names == ("print",)  # a free name, never Python's
        with pytest.raises(ExpressionError, match="print is unknown"):
            Expression(text)({})
        return
    with pytest.raises(ExpressionError) as refusal:
        Expression(text)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "text",
    [
        "+".join("a" * 2000),
        "(" * 900 + "a" + ")" * 900,
        "not " * 400 + "a",
        "-" * 1500 + "a",
        "a+(" * 100 + "a" + ")" * 100,
    ],
)
def test_long_and_deep_texts_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "2 ** a ** a",
        "9 ** 9 ** 9 ** 9",
        "1 << a * 1000",
        "a << -1",
        "a ** 65",
        "(2 ** 62) ** 2",
        "'x' * 1000",
        "-'x'",
        "'x' < a",
        "a in 'abc'",
        "a % 0",
        "0 ** -a",
        "(-a) ** 0.5",
        "{1: 2}[a]",
        "a + (1, 2)",
        "gcd(a, 0.5)",
        "1.5 << a",
        "b",
    ],
)
def test_values_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression(text)({"a": 100})


def test_the_named_functions_and_tables_work_on_both() -> None:
    columns = {"a": np.array([1, 6, 8]), "word": np.array(["x", "y", "x"])}
    for text, expected in (
        ("ceil_div(a, 4)", [1, 2, 2]),
        ("round_up(a, 4)", [4, 8, 8]),
        ("gcd(a, 4)", [1, 2, 4]),
        ("lcm(a, 4)", [4, 12, 8]),
        ("{1: 5, 6: 7, 8: 9}[a]", [5, 7, 9]),
        ("a << 2", [4, 24, 32]),
        ("word == 'x'", [True, False, True]),
        ("word in ('y', 'z')", [False, True, False]),
        ("a in (8, 'x')", [False, False, True]),
        ("max((a, 3))", [3, 6, 8]),
    ):
        assert Expression(text)(columns).tolist() == expected
        rows = [{"a": int(columns["a"][row]), "word": str(columns["word"][row])} for row in range(3)]
        assert [Expression(text)(row) for row in rows] == expected


def test_a_guarded_division_never_fails_on_a_column() -> None:
    columns = {"a": np.array([0, 3])}
    assert Expression("12 // a if a else -1")(columns).tolist() == [-1, 4]
    assert Expression("a != 0 and 12 % a == 0")(columns).tolist() == [False, True]


def test_truths_count_as_zero_and_one_on_columns_too() -> None:
    columns = {"a": np.array([1, 5, 9]), "b": np.array([0, 5, 20])}
    for text, expected in (
        ("(a > 2) + (b > 2)", [0, 2, 2]),
        ("(a > 2) - (b > 9)", [0, 1, 0]),
        ("-(a > 2)", [0, -1, -1]),
        ("gcd(a > 2, 4)", [4, 1, 1]),
        ("(b or a) * 2", [2, 10, 40]),
        ("(b and a) + 1", [1, 6, 10]),
    ):
        assert Expression(text)(columns).tolist() == expected
        assert [
            Expression(text)({"a": int(a), "b": int(b)}) for a, b in zip(*columns.values(), strict=True)
        ] == expected
