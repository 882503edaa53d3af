"""The configurations that stand in for a safe default that fails: which ones, in which order, how many."""

from __future__ import annotations

from seqtune.kernels.kernel import Configuration, Constraint, Kernel, Parameter
from seqtune.kernels.task import Task
from seqtune.tuner.stand_ins import TRIES, default_and_stand_ins, failed_default
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM


def settings(configurations: list[Configuration]) -> list[tuple[int, ...]]:
    return [tuple(int(value) for _, value in configuration.settings) for configuration in configurations]


def test_each_next_one_shares_the_fewest_values_with_those_before() -> None:
    tried = list(default_and_stand_ins(Task.of(PROBLEM, DEVICE, [KERNEL])))
    assert settings(tried)[:4] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert len(tried) == len(set(tried)) == TRIES


def test_they_are_valid_and_end_with_the_space() -> None:
    kernel = Kernel("test.few", "gemm", ("test",), (Parameter("x", (0, 1)), Parameter("y", (0, 1))),
                    (Constraint.of("x + y < 2", "too large"),), (("x", 1), ("y", 1)))  # the declared default is invalid
    tried = list(default_and_stand_ins(Task.of(PROBLEM, DEVICE, [kernel])))
    assert settings(tried) == [(0, 1), (1, 0), (0, 0)]


def test_the_other_kernels_follow_with_their_defaults() -> None:
    other = Kernel("test.other", "gemm", ("test",), (Parameter("z", (7, 8)),), (), (("z", 8),))
    tried = list(default_and_stand_ins(Task.of(PROBLEM, DEVICE, [KERNEL, other])))
    assert [configuration.kernel for configuration in tried] == ["test.k"] * TRIES + ["test.other"]
    assert settings(tried)[-1] == (8,)


def test_the_sentence_names_the_default_the_reason_and_the_stand_in() -> None:
    default, stand_in = (Configuration.of("test.k", {"x": x, "y": 0}) for x in (0, 1))
    assert failed_default(default, "no such tile", stand_in) == (
        "the default configuration of test.k failed: no such tile (x=0 y=0); compared with x=1 y=0 instead")
    assert failed_default(default, "no such tile", others=3).endswith(
        "(x=0 y=0), and so did 3 more")
