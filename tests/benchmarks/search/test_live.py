"""Tests of the live comparison of searches: the parts that measure nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import pytest

from benchmarks.data.locked_problems import locked_problems
from benchmarks.search import live_page
from benchmarks.search.answers import AnswerContest, Answers, compared_answers
from benchmarks.search.comparison import Search
from benchmarks.search.drawn_problems import CONFIGURATIONS, candidates, drawn
from benchmarks.search.live_page import geometric, lead, leads_of, log_shares, moments, rows_of
from benchmarks.search.peers import LIVE_STRATEGIES, search_as_peer
from benchmarks.search.trials import SearchRun, Trial
from seqtune.data.record import Measurement
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.collected import further_training
from seqtune.kernels.problem_sets.collected import problems as collected
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.timing import DEFAULTS
from tests.support.devices import DEVICES
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM, Fake
from tests.support.installation.optional import needs

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])
RUN = SearchRun((Trial(3, 2.0, 1.0, 0.5), Trial(7, math.inf, 2.0), Trial(5, 1.0, 3.0)))


@needs("kernel_tuner")
@pytest.mark.parametrize("strategy", LIVE_STRATEGIES)
def test_strategies_of_kernel_tuner_ask_our_measurer(strategy: str) -> None:
    fake, numbers = Fake(), list[int]()

    def measure(wanted: Sequence[int], best: float) -> Iterator[Measurement]:
        measured = fake.measure(PROBLEM, [TASK[number] for number in wanted], DEFAULTS, best)
        return (measurement for _, measurement in measured)

    search_as_peer(TASK, strategy, 20, 0, measure, lambda number, measurement: numbers.append(number))
    assert len(set(numbers)) == len(numbers) == len(fake.measured)
    assert 15 <= len(numbers) <= 20  # simulated annealing ends after three quarters of its budget
    assert [TASK[number] for number in numbers] == fake.measured


def runs_of(shares: Mapping[str, list[float]]) -> dict[Search, SearchRun]:
    """Make a search of one trial for each method and seed; the configuration's number is the position."""
    numbered = [(method, seed) for method, times in shares.items() for seed in range(len(times))]
    return {Search(method, seed): SearchRun((Trial(number, 1.0, 2.0),))
            for number, (method, seed) in enumerate(numbered)}


def test_the_contest_decides_and_not_the_search_itself() -> None:
    runs = runs_of({"portfolio": [0.5], "kt:pso": [1.0]})
    answers: dict[Search, Answers] = {
        run: {"trials": [number], "seconds": [None]} for number, run in enumerate(runs)}
    rows = rows_of(DEVICE, PROBLEM, runs, AnswerContest(answers, {0: 2.0, 1: 1.0}), (1,))
    assert [(row["method"], row["share_by_trials"], row["share_by_seconds"]) for row in rows] == [
        ("portfolio", [0.5], [0.0]), ("kt:pso", [1.0], [0.0])]
    assert moments(runs.values(), (1,)) == {"trials": (1,), "seconds": (2.0,)}
    assert moments([RUN], (1, 3))["seconds"] == (1.0, 3.0)


def test_finals_choose_our_answer_and_the_fastest_trial_is_that_of_a_peer() -> None:
    best_trial, best_final = (TASK.number(Configuration.of("test.k", {"x": 4, "y": y})) for y in (6, 5))
    searched = SearchRun((Trial(best_final, 2.0, 0.0), Trial(best_trial, 1.0, 9.0)))
    runs = {Search(method, 0): searched for method in ("portfolio", "kt:pso")}
    contest = compared_answers(TASK, runs, {"trials": [1, 2], "seconds": [5.0, 10.0]}, Fake(), lambda: None)
    ours, theirs = contest.answers.values()
    assert ours == {"trials": [best_final, best_final], "seconds": [best_final, best_final]}
    assert theirs == {"trials": [best_final, best_trial], "seconds": [best_final, best_trial]}
    assert AnswerContest.from_json(contest.to_json(), list(runs)) == contest
    with pytest.raises(FormatError, match="does not hold the answers"):
        AnswerContest.from_json({"answers": [], "seconds": {}}, list(runs))


def rows(shares: Mapping[str, float], problem: str, seed: int = 0) -> list[dict[str, object]]:
    """Make the rows of one problem, in which each method has a share after one, two and four trials."""
    return [{"device": "toy:1", "problem": problem, "method": method, "seed": seed, "trials": 4, "elapsed": 1.5,
             "failed": 0, "moments": [1.0, 2.0, 4.0], "share_by_trials": [share] * 3, "share_by_seconds": [share] * 3}
            for method, share in shares.items()]


def test_a_lead_on_every_problem_is_significant_and_one_on_half_of_them_is_not() -> None:
    shares = [row for index in range(8) for row in rows(
        {"portfolio": 0.9, "kt:pso": 0.8 + 0.005 * index, "kt:bayes_opt": 0.8 if index % 2 else 0.99}, f"gemm {index}")]
    means = log_shares(shares, "trials", 0)
    assert geometric(means["portfolio"]) == pytest.approx(0.9)
    ratio, low, high = lead(means["portfolio"], means["kt:pso"])
    assert 1 < low < ratio < high
    _, low, high = lead(means["portfolio"], means["kt:bayes_opt"])
    assert low < 1 < high
    by_moment = {(row["trials"], row["time"], row["method"]): row for row in leads_of(shares, (1, 2, 4))}
    assert by_moment[1, None, "kt:pso"]["ratio"] == pytest.approx(ratio)
    assert by_moment[1, None, "kt:pso"]["low"] > 1
    assert by_moment[None, "full time", "kt:bayes_opt"]["low"] < 1
    assert len(by_moment) == 12
    page = live_page.page({"machine": {}, "rows": shares, "budgets": [1, 2, 4], "seeds": 1})
    assert "| kt:pso | 0.817 < |" in page.tables
    assert f"| kt:pso | {ratio:.3f} [" in page.tables
    assert "| kt:bayes_opt | 0.890 |" in page.tables
    assert "after 4 trials 0.900 (Kernel Tuner's best, bayes_opt: 0.890" in page.claim


def test_drawn_problems_are_new_to_all_data_and_large_enough() -> None:
    devices = [DEVICES["llvm"], DEVICES["opencl"]]
    problems = drawn(devices, 4)
    assert problems == drawn(devices, 4)
    assert [device.backend for device, _ in problems] == ["llvm", "opencl"] * 2
    assert {problem.type for _, problem in problems[::2]} == {"conv2d", "gemm"}
    assert all(CONFIGURATIONS[0] <= len(Task.of(problem, device)) for device, problem in problems)
    split = collected()
    known = SimilarityIndex([*split.training, *split.held_out, *further_training(), *locked_problems()])
    assert not any(map(known.has_near, candidates()))
    assert drawn(devices, 4, seed=1) != problems
