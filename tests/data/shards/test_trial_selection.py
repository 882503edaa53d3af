"""The selection of trials: the same for any order of the rows, within its limits, with the fastest ones."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.data.shards.trial_selection import PARTS, Hashes, SelectionLimits, TrialSelection, mixed

ROWS = 30_000
GENERATOR = np.random.default_rng(0)
PROBLEM, DEVICE, CONFIGURATION = (GENERATOR.integers(0, most, ROWS).astype(np.uint64) for most in (60, 3, 300))
SECONDS = GENERATOR.random(ROWS).astype(np.float32)
SECONDS[::50] = np.inf
PROBLEMS = mixed(PROBLEM)
CASES = mixed(PROBLEMS, DEVICE)
TRIALS = mixed(CASES, CONFIGURATION)


def chosen(limits: SelectionLimits, order: np.ndarray, pieces: int = 1) -> tuple[Hashes, int, int]:
    selection = TrialSelection(limits)
    for rows in np.array_split(order, pieces):
        selection.add(PROBLEMS[rows], CASES[rows], TRIALS[rows], SECONDS[rows])
    return selection.chosen()


@pytest.mark.parametrize(("cases", "configurations", "each"), [
    (1000, 100_000, 1000), (50, 100_000, 100), (1000, 3_000, 1000), (20, 500, 64)])
def test_the_choice_does_not_depend_on_the_order_of_the_rows_or_on_how_they_are_divided(
        cases: int, configurations: int, each: int) -> None:
    limits = SelectionLimits(cases, configurations, each, 10**9)
    whole, count, most = chosen(limits, np.arange(ROWS))
    assert 0 < count <= cases
    assert 0 < len(whole) <= configurations
    assert most <= each
    for seed, pending in enumerate((1, 1_000, 7_000)):
        order = np.random.default_rng(seed).permutation(ROWS)
        again = chosen(SelectionLimits(cases, configurations, each, pending), order, 23)
        assert again[1:] == (count, most)
        assert (again[0] == whole).all()


def test_everything_is_chosen_where_it_fits() -> None:
    trials, cases, _ = chosen(SelectionLimits(1000, 100_000, 300, 5_000), np.arange(ROWS), 9)
    assert cases == len(np.unique(CASES)) == 180
    assert (trials == np.unique(TRIALS)).all()


def test_a_case_keeps_its_fastest_configurations_and_a_sample_of_the_others() -> None:
    trials, _, most = chosen(SelectionLimits(1000, 100_000, 40, 5_000), np.arange(ROWS), 9)
    assert most == 40
    for case in np.unique(CASES)[:20]:
        rows = np.flatnonzero(case == CASES)
        least = {trial: SECONDS[rows[TRIALS[rows] == trial]].min() for trial in np.unique(TRIALS[rows])}
        kept = np.isin(list(least), trials)
        assert kept.sum() == min(40, len(least))
        ordered = np.argsort(list(least.values()))
        assert kept[ordered[:40 // PARTS]].all()
        assert 20 < np.mean(np.flatnonzero(kept[ordered[10:]])) * 100 / len(ordered[10:]) < 80  # not the next fastest


def test_all_devices_of_a_problem_are_kept_or_none() -> None:
    trials, cases, _ = chosen(SelectionLimits(50, 100_000, 1000, 5_000), np.arange(ROWS), 9)
    kept = np.isin(TRIALS, trials)
    assert cases == 3 * len(np.unique(PROBLEMS[kept]))
    assert kept[np.isin(PROBLEMS, PROBLEMS[kept])].all()


def test_nothing_is_chosen_of_nothing() -> None:
    assert chosen(SelectionLimits(), np.arange(0))[0].size == 0
