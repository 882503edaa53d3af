"""Which of several is faster, by samples with known noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from seqtune.tuner.measuring.comparison import (
    Rule,
    faster_than,
    holm,
    leads_in_every_batch,
    p_value,
    sample_in_rounds,
    typical,
)

TENTH = Rule(margin=0.1)


def test_each_round_takes_one_sample_of_all_in_a_new_order_that_the_seed_decides() -> None:
    def orders(seed: int) -> list[int]:
        taken: list[int] = []

        def take(index: int) -> float:
            taken.append(index)
            return float(index)

        assert sample_in_rounds(take, 4, 9, seed) == [(float(index),) * 9 for index in range(4)]
        return taken

    rounds = np.array(orders(1)).reshape(9, 4)
    assert all(sorted(row) == [0, 1, 2, 3] for row in rounds.tolist())
    assert len(set(map(tuple, rounds.tolist()))) > 5
    assert orders(1) == orders(1) != orders(2)


def test_rounds_in_which_all_were_slow_do_not_change_what_is_typical() -> None:
    samples = {"a": [1.0, 1.0, 3.0, 3.0, 3.0], "b": [2.0, 2.0, 6.0, 6.0, 6.0]}
    seconds = typical(samples)
    assert seconds["b"] / seconds["a"] == pytest.approx(2.0)
    assert typical({"a": [1.0] * 5, "b": [2.0] * 5}) == {"a": 1.0, "b": 2.0}


def test_a_single_lucky_sample_does_not_decide_what_is_typical() -> None:
    assert typical({"steady": [1.0] * 9, "lucky": [0.8] + [1.1] * 8})["lucky"] > 1.0


def test_what_has_no_samples_is_never_ahead() -> None:
    seconds = typical({"ran": [1.0, 2.0, 3.0], "failed": []})
    assert seconds == {"ran": 2.0, "failed": math.inf}
    assert faster_than("ran", {"ran": [1.0, 2.0, 3.0], "failed": []}, Rule()) == []
    assert faster_than("failed", {"ran": [1.0, 2.0, 3.0], "failed": []}, Rule()) == []


@pytest.mark.parametrize(("reference", "other", "faster"), [
    ([1.0] * 11, [0.8] * 11, True), ([1.0] * 11, [0.92] * 11, False), ([1.0] * 11, [1.0] * 11, False),
    ([1.0] * 6 + [3.0] * 5, [1.0] * 6 + [0.5] * 5, False), ([5.0] * 10 + [1.0], [1.0] * 11, False),
    ([1.0, 2.0, 9.0] * 4, [0.8, 1.6, 7.0] * 4, True), ([1.0], [0.1], False)])
def test_faster_is_said_on_clear_evidence_only(reference: list[float], other: list[float], faster: bool) -> None:
    assert (faster_than("reference", {"reference": reference, "other": other}, TENTH) == ["other"]) == faster


def test_a_lead_in_one_batch_alone_is_none() -> None:
    lucky, rule = [2.0] * 15 + [1.0] * 6, Rule(batches=6)
    assert p_value(lucky, [1.0] * 21, rule.margin) < rule.level
    assert not leads_in_every_batch(lucky, [1.0] * 21, rule)


def test_the_signed_rank_test_agrees_with_counting_all_signs() -> None:
    lead, margin = np.random.default_rng(5).normal(0.02, 0.05, 9), np.log1p(0.01)
    ranks = np.argsort(np.argsort(np.abs(lead))) + 1
    rank_sums = [sum(rank for index, rank in enumerate(ranks) if signs >> index & 1) for signs in range(2**9)]
    assert p_value(np.exp(lead + margin).tolist(), [1.0] * 9, 0.01) == pytest.approx(
        np.mean(np.array(rank_sums) >= ranks[lead > 0].sum()))


def test_holm_stops_at_the_first_hypothesis_that_stands() -> None:
    chances = {1: 0.004, 2: 0.006, 3: 0.001}
    assert holm(chances, 0.01) == [3, 1, 2]
    assert holm({**chances, 1: 0.0051}, 0.01) == [3]


RULE = Rule(batches=6)


def false_claims(simulations: int, claims: Callable[[dict[int, list[float]]], Sequence[int]]) -> int:
    """Count claims about any of twenty that are as fast as the reference, with noise of a tenth and few rounds."""
    generator = np.random.default_rng(7)
    return sum(bool(claims(dict(enumerate(np.exp(generator.normal(0, 0.1, (21, 18))).tolist()))))
               for _ in range(simulations))


def leading(samples: dict[int, list[float]]) -> list[int]:
    """The demands on a claim without the signed-rank test."""
    return [index for index in range(1, 21) if leads_in_every_batch(samples[0], samples[index], RULE)
            and min(samples[index]) < min(samples[0])]


def without_holm(samples: dict[int, list[float]]) -> list[int]:
    """All demands on a claim, but each test has the whole level."""
    return [index for index in leading(samples)
            if p_value(samples[0], samples[index], RULE.margin) <= RULE.level]


@pytest.mark.slow
def test_a_false_claim_is_as_rare_as_stated_for_the_test_and_its_correction() -> None:
    """The leads in all batches alone do not suffice, nor does the signed-rank test without Holm's correction."""
    allowed = 300 * Rule().level  # of 300 simulations, about 1, 9 and 30 make claims
    assert false_claims(300, lambda samples: faster_than(0, samples, RULE)) <= allowed
    assert false_claims(300, without_holm) > allowed
    assert false_claims(300, leading) > 5 * allowed, "without the signed-rank test"
