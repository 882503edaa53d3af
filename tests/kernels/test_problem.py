from __future__ import annotations

import json

import pytest

from seqtune.errors import ProblemError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.expression import Expression
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem, forget_names, names_of
from seqtune.kernels.problem_sets.networks import NETWORKS, network
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.sampler import sample_problems

SMALL: dict[str, Value] = {"c": 8, "h": 9, "w": 7, "k": 4, "r": 3, "s": 3}


def many() -> list[Problem]:
    return (
        [problem for name in NETWORKS for problem in network(name)]
        + sample_problems("conv2d", 50, 3)
        + sample_problems("gemm", 20, 3)
        + [Problem.make("recorded", size=3, word="two words", rate=0.5, missing=None)]
    )


def test_every_problem_survives_text_and_json() -> None:
    for problem in many():
        assert Problem.from_json(json.dumps(problem.to_json())) == problem
        assert Problem.from_json(problem.to_json()) == problem
        assert parse_problem(problem.key) == problem
        assert parse_problem(problem.brief(skip_defaults=False)) == problem
        assert parse_problem(json.dumps(problem.to_json())) == problem


def test_the_output_size_and_work_follow_the_definition() -> None:
    problem = Problem.make("conv2d", **SMALL | {"pad_h": 1, "stride_h": 2, "dilation_w": 2, "groups": 2})
    assert (problem.size("out_h"), problem.size("out_w")) == (5, 3)
    assert problem.size("flop") == 2 * 4 * 5 * 3 * 4 * 3 * 3
    assert Problem.make("gemm", m=2, n=3, k=5).size("flop") == 60


def test_what_an_unknown_feature_decides_is_unknown_too() -> None:
    problem = Problem.make("conv2d", **SMALL | {"h": None})
    assert problem.names()["out_h"] is None
    assert problem.names()["out_w"] == 5
    assert "h=unknown" in problem.key
    with pytest.raises(ProblemError, match="flop is unknown"):
        problem.size("flop")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": -3}, "outside 1"),
        ({"stride_h": 0}, "outside 1"),
        ({"pad_h": -1}, "outside 0"),
        ({"c": "many"}, "not a whole number"),
        ({"c": 1.5}, "not a whole number"),
        ({"c": True}, "not a whole number"),
        ({"c": 1 << 40}, "outside"),
        ({"groups": 3}, "groups must divide"),
        ({"r": 10}, "higher than"),
        ({"s": 5, "dilation_w": 2}, "wider than"),
        ({"layout": "CHWN"}, "not one of NCHW, NHWC"),
        ({"tolerance": -1.0}, "not a positive number"),
        ({"tolerance": float("nan")}, "not a positive number"),
        ({"tolerance": "low"}, "not a positive number"),
        ({"channels": 3}, "no feature 'channels'"),
        ({"n": 1 << 20, "c": 1 << 20, "h": 1 << 20, "groups": 1}, "the input would have more than 2.60 elements"),
    ],
)
def test_an_impossible_convolution_is_refused_in_one_line(change: dict[str, Value], message: str) -> None:
    with pytest.raises(ProblemError, match=message) as refusal:
        Problem.make("conv2d", **SMALL | change)
    assert "\n" not in str(refusal.value)


def test_a_missing_size_and_an_unknown_type_are_named() -> None:
    with pytest.raises(ProblemError, match="needs k \\(output channels\\)"):
        Problem.make("conv2d", **{name: size for name, size in SMALL.items() if name != "k"})
    with pytest.raises(ProblemError, match="no operation 'conv9d'; there are conv2d, convnd, gemm, recorded"):
        Problem.make("conv9d", n=1)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        '{"n": 1}',
        '{"type": 3}',
        '{"type": "gemm", "m": [1]}',
        '{"type": "gemm", "m": true, "n": 1, "k": 1}',
        "[" * 100_000,
    ],
)
def test_bad_json_is_refused(text: str) -> None:
    with pytest.raises(ProblemError):
        Problem.from_json(text)


@pytest.mark.parametrize("given", [{"a b": 1}, {"": 1}, {"a=b": 1}, {"a": float("inf")}, {"a": float("nan")}])
def test_a_recorded_problem_has_names_and_finite_values(given: dict[str, Value]) -> None:
    with pytest.raises(ProblemError):
        Problem.make("recorded", **given)


def test_the_names_of_a_problem_on_a_device_remember_which_conditions_hold() -> None:
    problem, device = Problem.make("gemm", m=4, n=6, k=8), Device("toy:0", "toy", "none", "none", threads=3)
    names = names_of(problem, device)
    assert names == {**device.names(), **problem.names()}
    assert names_of(problem, device) is names
    condition = Expression("m * threads == 12")
    assert names.satisfy(condition)
    assert names.satisfy(Expression("m * threads == 12"))
    assert not names.satisfy(Expression("m * threads == 11"))
    forget_names()
    assert names_of(problem, device) is not names
