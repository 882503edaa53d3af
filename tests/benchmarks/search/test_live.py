"""Tests of the live comparison of searches: the parts that measure nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from benchmarks.common.finished import Finished
from benchmarks.data.locked_problems import locked_problems
from benchmarks.search import live_page
from benchmarks.search.answers import AnswerContest, Answers, compared_answers
from benchmarks.search.charged_measurer import BuildSeconds, ChargedMeasurer
from benchmarks.search.comparison import Search
from benchmarks.search.drawn_problems import CONFIGURATIONS, candidates, drawn
from benchmarks.search.live import LiveProblem, search_as_ours
from benchmarks.search.live_page import geometric, lead, leads_of, log_shares, moments, rows_of
from benchmarks.search.peers import LIVE_STRATEGIES, joined_names, joined_values, search_as_peer
from benchmarks.search.trials import SearchRun, Trial
from seqtune.data.record import Measurement, Status
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem_sets.collected import further_training
from seqtune.kernels.problem_sets.collected import problems as collected
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.timing import DEFAULTS
from tests.support.devices import DEVICES
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM, Fake
from tests.support.installation.optional import needs

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])
RUN = SearchRun((Trial(3, 2.0, 1.0, 0.5), Trial(7, math.inf, 2.0), Trial(5, 1.0, 3.0)))


def test_families_are_joined_to_one_space_with_every_configuration_once() -> None:
    task = Task.of(parse_problem("conv2d c=16 h=7 k=32 r=3 pad=1"), DEVICES["llvm"])
    assert len(task.kernels) > 1
    numbers = joined_values(task)
    assert sorted(numbers.values()) == list(range(len(task)))
    assert len(joined_names(task)) == len(next(iter(numbers)))
    assert {values[0] for values in numbers} == set(range(len(task.kernels)))
    assert all(isinstance(value, int) for values in numbers for value in values)


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


def test_our_strategies_search_without_finals() -> None:
    fake, numbers = Fake(), []
    search_as_ours(TASK, "portfolio", 20, 0, fake, lambda number, measurement: numbers.append(number))
    assert (len(set(numbers)), fake.compared) == (20, [])


def test_a_search_at_an_earlier_moment_has_fewer_trials() -> None:
    assert [RUN.after(count).fastest for count in (0, 1, 2, 3)] == [None, 3, 3, 5]
    assert [RUN.at(seconds).fastest for seconds in (0.5, 1.0, 2.9, 3.0)] == [None, 3, 3, 5]
    assert SearchRun.from_json(RUN.to_json()) == RUN
    damaged: object
    for damaged in ({}, [[1, 2.0]], [["x", 1.0, 2.0, 3.0]]):
        with pytest.raises(FormatError, match="does not hold trials"):
            SearchRun.from_json(damaged)


class Built(Fake):
    """A measurer whose builds take a tenth of a second."""

    def time(self, configuration: Configuration, best_y: int) -> Measurement:
        return Measurement(Status.CORRECT, (1.0,), build_seconds=0.1)


def test_a_build_from_the_cache_costs_what_the_first_one_cost(tmp_path: Path) -> None:
    (path := tmp_path / "builds.txt").write_text("0 1.0\n1 0.11\n0 0.5\n")
    charged = ChargedMeasurer(Built(), BuildSeconds(path, TASK))
    assert len(list(charged.measure(PROBLEM, [TASK[0], TASK[1], TASK[2]], DEFAULTS))) == 3
    assert charged.debt == pytest.approx(0.9)  # the second was built again, the third was new
    again = BuildSeconds(path, TASK)
    assert [again[TASK[number]] for number in range(4)] == [1.0, 0.11, 0.1, 0.0]
    path.write_text("0 soon\n")
    with pytest.raises(FormatError, match="does not hold builds"):
        BuildSeconds(path, TASK)


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


def test_a_search_without_an_answer_has_a_small_share() -> None:
    means = log_shares(rows({"portfolio": 0.0}, "a") + rows({"portfolio": 1.0}, "a", seed=1), "seconds", 2)
    assert geometric(means["portfolio"]) == pytest.approx(0.1)


def test_compiled_kernels_are_kept_until_the_contest_of_a_problem_is_over(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    problem, finished = LiveProblem(DEVICE, PROBLEM, 1, (3,)), Finished(tmp_path)
    with problem.ready(finished):
        compiled = Path(os.environ["POCL_CACHE_DIR"])
        assert compiled.parent == tmp_path
        finished.left += 1  # the time is over
    assert compiled.is_dir()
    with problem.ready(finished):
        assert os.environ["POCL_CACHE_DIR"] == str(compiled)
    assert not compiled.exists()
    assert "POCL_CACHE_DIR" not in os.environ


def test_a_stored_contest_is_of_stored_searches(tmp_path: Path) -> None:
    problem, finished = LiveProblem(DEVICE, PROBLEM, 1, (1, 2, 3)), Finished(tmp_path)
    searches = problem.searches(["portfolio", "random"])
    assert [(search.method, search.seed) for search in searches] == [("portfolio", 0), ("random", 0)]
    results = dict.fromkeys(searches, RUN.to_json())
    contest = AnswerContest({search: {"trials": [3, 3, 5], "seconds": [3, 3, 5]} for search in searches},
                            {3: 1.0, 5: 2.0})
    finished.get((*problem.names, "contest", "portfolio", "random", 1), contest.to_json)
    rows = problem.outcomes(results, finished)
    assert [row["share_by_trials"] for row in rows] == [[1.0, 1.0, 0.5]] * 2
    late = Finished(tmp_path / "empty", Deadline(0.0))
    assert (problem.outcomes(results, late), late.left) == ([], 1)


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
