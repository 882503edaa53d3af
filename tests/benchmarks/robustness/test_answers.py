"""The comparison of two versions' answers finds what changed."""

from __future__ import annotations

import json

import pytest

from benchmarks.robustness.answers import Difference, compare


def line(*candidates: tuple[str, float]) -> str:
    """An answer to one problem, as `seqtune predict --problems` writes it."""
    return json.dumps({"candidates": [{"kernel": kernel, "configuration": {}, "probability": probability}
                                      for kernel, probability in candidates]})


def test_equal_answers_do_not_differ() -> None:
    text = line(("a", 0.5), ("b", 0.25))
    assert compare("predict on x", text, text) == Difference("predict on x", 1, 0, 0, 0.0)


def test_other_probabilities_of_the_same_order_are_measured() -> None:
    found = compare("predict on x", line(("a", 0.5), ("b", 0.25)), line(("a", 0.5), ("b", 0.125)))
    assert (found.different, found.reordered) == (1, 0)
    assert found.greatest == pytest.approx(0.6931, abs=1e-4)


def test_another_order_and_a_missing_problem_are_counted() -> None:
    before = f"{line(('a', 0.5), ('b', 0.25))}\n{line(('a', 1.0))}"
    found = compare("predict on x", before, line(("b", 0.25), ("a", 0.5)))
    assert (found.parts, found.different, found.reordered) == (2, 2, 2)


def test_other_answers_are_compared_line_by_line() -> None:
    assert compare("export", "1\n2\n3", "1\n5\n3") == Difference("export", 3, 1, 0, 0.0)
