"""The report of a retraining: rows with intervals, and notes on what fell and what cannot be evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from seqtune.kernels.problem_sets.leakage import MOST_NAMED, abridged
from seqtune.predictor.learning.tasks.adaptation.report import NEW, OLD, RetrainingReport, comparison_rows
from seqtune.predictor.learning.tasks.shares import OURS, Outcome

EMPTY = RetrainingReport(("toy:1",), 20, 20, 300, (), (), (), {NEW: (), OLD: ()}, (), (), 0, 5, 5, False, False, 9.0)


def outcomes(shares: Sequence[float], device: str = "toy:1") -> list[Outcome]:
    """Outcomes of first proposals with these shares; the best of three always reaches everything."""
    return [Outcome(f"{number}", device, {(OURS, 0): math.log(share), (OURS, 3): 0.0}, 0)
            for number, share in enumerate(shares)]


def test_before_and_after_are_compared_by_device_and_number_of_proposals() -> None:
    before = [*outcomes([0.5] * 6), *outcomes([0.9] * 7, "toy:2")]
    after = [*outcomes([0.6] * 6), *outcomes([0.9] * 7, "toy:2")]
    rows = comparison_rows(NEW, before, after)
    assert [(row.device, row.measured, row.problems) for row in rows] == [
        ("toy:1", 0, 6), ("toy:1", 3, 6), ("toy:2", 0, 7), ("toy:2", 3, 7)]
    first = rows[0]
    assert (first.before, first.after, first.difference) == pytest.approx((0.5, 0.6, 0.1))
    assert (first.low, first.high) == pytest.approx((0.1, 0.1)), "the same problems are drawn for both"
    assert (rows[1].difference, rows[1].scratch) == (0.0, None)
    assert comparison_rows(NEW, before, after, scratch=before)[0].scratch == pytest.approx(0.5)


def test_a_training_that_its_time_ended_says_how_many_epochs_fitted_and_what_was_learned() -> None:
    assert EMPTY.notes == []
    (some,) = replace(EMPTY, epochs=2, out_of_time=True).notes
    assert some == "2 of 5 epochs fitted into the time; more time (--minutes) lets it learn more"
    (none,) = replace(EMPTY, epochs=0, out_of_time=True).notes
    assert "the translator is what it was, and only the trees learned" in none


def test_a_fall_on_every_problem_is_warned_of_and_one_within_noise_is_not() -> None:
    before = outcomes([0.9] * 8)
    fallen = comparison_rows(OLD, before, outcomes([0.8 + 0.005 * number for number in range(8)]))[0]
    mixed = comparison_rows(OLD, before, outcomes([0.5, *[0.93] * 7]))[0]
    assert fallen.falls
    assert mixed.difference is not None
    assert mixed.difference < 0
    assert not mixed.falls
    note, = replace(EMPTY, evaluated=(fallen, mixed)).notes
    assert note.startswith("toy:1: the first proposal fell from 0.900 to 0.817 on 8 held-out problems of the old")


def test_problems_left_out_of_evaluation_are_named_shortly_in_a_remark_and_completely_in_the_report() -> None:
    problems = tuple(f"gemm m={number}" for number in range(MOST_NAMED + 2))
    report = replace(EMPTY, not_evaluated={NEW: (), OLD: problems}, left_out=("gemm m=99",), unevaluated=("toy:1",),
                     unanswered=("gemm m=98",))
    nothing, near, unanswered, left_out = report.notes
    assert nothing.startswith("toy:1: nothing was held out")
    assert near.startswith(f"held-out problems of the old records: {abridged(problems)} are not used for evaluation")
    assert problems[0] in near
    assert problems[-1] not in near
    assert "and 2 more" in near
    assert unanswered.startswith("not evaluated: 1 problem (gemm m=98), because no training problem has the kernels")
    assert left_out.startswith("not learned from: 1 problem (gemm m=99) of the new records")
    content = json.loads(json.dumps(report.to_json()))
    assert content["not_evaluated"]["old"] == list(problems)
    assert (content["left_out"], content["left_out_problems"]) == (1, ["gemm m=99"])
    assert content["remarks"] == report.notes
