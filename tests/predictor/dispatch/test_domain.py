"""Domains: which shapes they hold, how they are read, and the shapes that are drawn from them."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.errors import MisuseError
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.predictor.dispatch.domain import Domain, Span

GEMM = operation("gemm")


def gemm(m: int, n: int, k: int, **features: str) -> Problem:
    return Problem.make("gemm", m=m, n=n, k=k, **features)


def test_a_domain_is_read_from_ranges_lists_words_and_constraints() -> None:
    domain = Domain.parse(GEMM, ["m=1..4096", "n = 64,128", "k=8", "trans_b=no,YES", "m % 8 == 0"])
    assert domain.ranges["m"] == Span(1, 4096)
    assert domain.ranges["n"] == (64, 128)
    assert domain.ranges["trans_b"] == ("no", "yes")
    assert [feature.name for feature in domain.varying] == ["m", "n", "trans_b"]
    assert domain.fixed["dtype"] == "fp32"
    assert Domain.parse(GEMM, domain.texts()).texts() == domain.texts()
    inside = domain.contains(ProblemColumns.of([
        gemm(8, 64, 8), gemm(8, 64, 8, trans_b="yes"), gemm(4, 64, 8), gemm(8, 96, 8), gemm(8, 64, 16),
        gemm(8, 64, 8, dtype="fp16"), gemm(8192, 64, 8)]))
    assert inside.tolist() == [True, True, False, False, False, False, False]


def test_a_box_around_shapes_fixes_what_is_the_same_and_texts_change_it() -> None:
    box = Domain.of_shapes([gemm(16, 256, 64), gemm(300, 256, 64, trans_a="yes"), gemm(7, 256, 128)])
    assert (box.ranges["m"], box.ranges["n"], box.ranges["k"]) == (Span(7, 300), 256, Span(64, 128))
    assert box.ranges["trans_a"] == ("no", "yes")
    changed = Domain.parse(GEMM, ["m=1..512", "k % 64 == 0"], box)
    assert (changed.ranges["m"], changed.ranges["k"]) == (Span(1, 512), Span(64, 128))
    assert changed.constraints == (Expression("k % 64 == 0"),)


def test_filters_and_images_are_square_unless_both_sides_are_given() -> None:
    domain = Domain.parse(operation("conv2d"), ["c=8..64", "h=7..56", "k=8..64", "r=1,3", "pad=0,1"])
    assert {constraint.text for constraint in domain.constraints} == {"s == r", "w == h"}
    assert domain.ranges["pad_w"] == domain.ranges["pad_h"] == (0, 1)
    columns = domain.sample(500, np.random.default_rng(0))
    assert len(columns) == 500
    assert (columns.values["h"] == columns.values["w"]).all()
    assert domain.contains(columns).all()


@pytest.mark.parametrize(("text", "reason"), [
    ("q=1..4", "gemm has no feature 'q'"), ("depth=1..4", "did you mean k"), ("m=9..3", "is empty"),
    ("m=0..8", "outside 1..1048576"), ("m=1..", "not a whole number"), ("m=1..2.5", "not a whole number"),
    ("m=abc", "not a whole number"), ("dtype=fp64", "not one of fp32"), ("dtype=fp16..fp32", "has no range"),
    ("m % 8 =", "neither a range"), ("q % 8 == 0", "gemm has no 'q'"), ("8 == 8", "names no feature"),
    ("m=1,unknown", "known values"), ("__import__('os') == 1", "not allowed"), ("trans_c=", "has no feature")])
def test_wrong_texts_get_one_line(text: str, reason: str) -> None:
    with pytest.raises(MisuseError, match=reason) as caught:
        Domain.parse(GEMM, [*["m=1..64", "n=1..64", "k=1..64"][text.startswith("m="):], text])
    assert "\n" not in str(caught.value)


def test_a_domain_needs_shapes_of_one_operation_and_all_that_has_no_default() -> None:
    with pytest.raises(MisuseError, match="found none"):
        Domain.of_shapes([])
    with pytest.raises(MisuseError, match="conv2d, gemm"):
        Domain.of_shapes([gemm(1, 1, 1), Problem.make("conv2d", c=1, h=1, w=1, k=1, r=1, s=1)])
    with pytest.raises(MisuseError, match="lack n, k; write n="):
        Domain.parse(GEMM, ["m=1..64"])
    with pytest.raises(MisuseError, match="two ranges"):
        Domain.parse(GEMM, ["m=1", "n=1", "k=1", "m=2"])
    multiples = ["m % 64 == 0 and n % 64 == 0", "k % 64 == 0"]  # few random shapes obey them
    domain = Domain.parse(GEMM, ["m=1..4096", "n=1..4096", "k=100..4096", *multiples])
    assert len(domain.sample(12, np.random.default_rng(0))) == 12
    with pytest.raises(MisuseError, match="obeys the constraints"):
        Domain.parse(GEMM, ["m=1..64", "n=1", "k=1", "m > 100"]).sample(100, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["gemm", "conv2d", "attention"])
def test_drawn_shapes_are_fresh_and_lie_in_the_domain(name: str) -> None:
    near = sample_problems(name, 40, seed=3)
    domain = Domain.of_shapes(near)
    weights = np.random.default_rng(0).random(40)
    drawn = domain.draw(60, np.random.default_rng(1), near, weights)
    assert len(set(drawn)) == 60
    assert not set(drawn) & set(near)
    assert domain.contains(ProblemColumns.of(drawn)).all()
    assert drawn == domain.draw(60, np.random.default_rng(1), near, weights)


def test_drawn_sizes_are_multiples_of_what_the_given_ones_are() -> None:
    near = [gemm(64 * i, 128, 32 * i) for i in range(1, 30)]
    drawn = Domain.of_shapes(near).draw(40, np.random.default_rng(0), near)
    assert all(problem.size("m") % 64 == 0 and problem.size("n") == 128 for problem in drawn)
    square = [Problem.make("conv2d", c=8, h=side, w=side, k=8, r=3, s=3) for side in (24, 30, 57)]
    drawn = Domain.of_shapes(square).draw(9, np.random.default_rng(0), square)
    assert all(problem.size("h") == problem.size("w") for problem in drawn)


def test_a_small_domain_has_fewer_fresh_shapes() -> None:
    domain = Domain.parse(GEMM, ["m=1..3", "n=4", "k=4"])
    assert set(domain.draw(9, np.random.default_rng(0), [gemm(2, 4, 4)])) == {gemm(1, 4, 4), gemm(3, 4, 4)}
    assert Domain.of_shapes([gemm(2, 4, 4)]).draw(9, np.random.default_rng(0), [gemm(2, 4, 4)]) == []


def test_a_feature_that_contradicts_those_it_follows_from_is_outside() -> None:
    given = {"c": 8, "h": 9, "w": 9, "k": 8, "r": 3, "s": 3}
    problems = [Problem.make("convnd", **given, **more) for more in ({}, {"out_h": 7}, {"out_h": 5}, {"n": 2})]
    domain = Domain.of_shapes(problems)
    assert domain.contains(ProblemColumns.of(problems)).tolist() == [True, True, False, True]


@pytest.mark.parametrize(("condition", "proved"), [
    ("m >= 1", True), ("m < 1", False), ("m > 5", False), ("m * n <= 4096 * 500", True), ("m + n + k > 12", True),
    ("ceil_div(m, 64) <= 64", True), ("k == 8", True), ("8 % k == 0", True), ("m % (k - 8) == 0", False),
    ("trans_b == 'no' or trans_b == 'yes'", True), ("max(m, n, k) <= 4096 and min(m, n) >= 1", True),
    ("n % 2 == 1 or n % 2 == 0", True), ("m // n >= 0", True), ("flop > 0", True), ("m * n * k % 7 >= 0", True),
    ("m != n", False), ("n % 2 == m % 2 or n % 2 != m % 2", False)])  # the last one has too many shapes to try all
def test_conditions_are_proved_for_a_whole_domain(condition: str, proved: bool) -> None:
    domain = Domain.parse(GEMM, ["m=1..4096", "n=10..500", "k=8", "trans_b=no,yes"])
    assert domain.proves([Expression(condition)]) is proved


def test_rules_and_constraints_help_to_prove() -> None:
    domain = Domain.parse(operation("conv2d"), ["c=64", "h=1..64", "w=9", "k=64", "r=1..5", "s=3", "h > 8"])
    assert domain.proves([Expression("out_h >= 1"), Expression("h >= 9")])
    assert not domain.proves([Expression("64 % (out_h - 60) >= -999999")])  # undefined for some
    wide = Domain.parse(operation("conv2d"), ["c=64", "h=9..200", "w=9..200", "k=64", "r=1..5", "s=1..5"])
    assert wide.proves([Expression("(out_h if c == 64 and out_w > out_h else out_w) >= 5")])
