"""The program that judges confidences: its figures on made-up proposals, and its page."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.prediction.confidence import by_group, calibration_error, covered_regret, page, timed_once


def test_the_calibration_error_is_the_mean_difference_within_bins() -> None:
    expected, observed = np.array([0.5] * 10 + [0.9] * 10), np.array([0.4] * 10 + [0.9, 1.0] * 5)
    assert calibration_error(expected, observed, 2) == pytest.approx((0.1 + 0.05) / 2)
    assert calibration_error(expected, expected) == pytest.approx(0.0)


def test_the_covered_regret_leaves_out_the_least_certain() -> None:
    certainty, observed = np.array([0.9, 0.8, 0.7, 0.6, 0.1]), np.array([1.0, 1.0, 1.0, 0.9, 0.4])
    assert covered_regret(certainty, observed, 1.0) == pytest.approx(0.14)
    assert covered_regret(certainty, observed) == pytest.approx(0.025)
    assert covered_regret(-certainty, observed) > 0.14


def test_the_page_tells_errors_and_regrets_of_both_groups() -> None:
    generator = np.random.default_rng(0)
    rows = [{"group": group, "device": "toy:0", "problem": str(number), "proposals": [
        [share, share - 0.05, min(1.0, share + 0.05), min(1.0, share + float(generator.normal(0, 0.02)))]
        for share in generator.uniform(0.7, 0.99, 5).tolist()]} for group in ("held out", "new machine")
        for number in range(30)]
    figures = by_group(rows)
    assert set(figures) == {"held out", "held out, toy:0", "new machine", "new machine, toy:0"}
    assert figures["held out"]["error"] < 0.02
    assert figures["held out"]["inside"] > 0.9
    assert figures["held out"]["best_ratio"] <= figures["held out"]["ratio"] < 0.9
    written = page({"date": "2026-01-01", "method": "toys", "rows": rows})
    assert "a machine that was left out" in written.claim
    assert written.tables.count("\n") == 5


def test_the_page_says_how_much_regret_rests_on_a_single_trial() -> None:
    rows = [{"group": "held out", "device": "toy:0", "problem": str(number), "once": number < 2,
             "proposals": [[0.9, 0.8, 1.0, 0.7 if number < 2 else 0.9]]} for number in range(4)]
    said = "the first proposals of 2 of 4 problems were timed only once, alone; they have 75% of the regret."
    assert said in timed_once(rows)
    assert said in page({"date": "2026-01-01", "method": "toys", "rows": rows}).caveats[-1]
    assert timed_once([{**row, "once": None} for row in rows]) == ""
