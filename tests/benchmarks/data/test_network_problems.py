"""The problems of networks: half of the networks are held out whole, and nothing is learned near them."""

from __future__ import annotations

import pytest

from benchmarks.data.locked_problems import locked_problems
from benchmarks.data.network_problems import (
    ALSO_HELD_OUT,
    SEEDED,
    TRAINED,
    held_out_networks,
    network_problems,
    problems_by_network,
)
from benchmarks.networks.models import NETWORKS
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.similarity import SimilarityIndex


def test_half_of_the_networks_are_held_out_and_both_parts_have_transformers() -> None:
    held_out = set(held_out_networks())
    assert len(held_out) == 10
    assert set(ALSO_HELD_OUT) <= held_out
    assert held_out.isdisjoint(TRAINED)
    for part in (held_out, set(NETWORKS) - held_out):
        assert {NETWORKS[name].convolutional for name in part} == {True, False}
    assert set(problems_by_network()) == {*NETWORKS, SEEDED}


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_no_problem_that_is_learned_from_is_near_a_held_out_or_a_locked_one(dtype: str) -> None:
    split = network_problems(dtype)
    near = SimilarityIndex((*split.held_out, *(problem for problem in locked_problems() if dtype == "fp32")))
    assert not [problem for problem in split.training if near.has_near(problem)]
    assert not set(split.held_out) & set(locked_problems())
    assert {problem["dtype"] for part in (split.training, split.held_out) for problem in part} == {dtype}
    assert {kind_of(problem) for problem in split.training} >= {"attention", *KINDS}
    assert {kind_of(problem) for problem in split.held_out} >= {"attention", "depthwise", "grouped", "1x1"}
