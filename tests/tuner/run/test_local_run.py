"""The tuning loop: budgets, finals, resuming; a killed tuner loses no measurement and repeats none."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import InterruptedTuning, KernelError, UnpreparedError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.run.finals import are_noisy
from seqtune.tuner.run.local_run import LocalRun, tune
from seqtune.tuner.run.plan import Budget, Finals, Plan, TuningOptions, TuningProgress
from seqtune.tuner.run.result import TuningResult
from seqtune.tuner.stand_ins import TRIES
from tests.support import planted
from tests.support.fake_measurer import DEVICE, KERNEL, PROBLEM, Fake

TASK = Task.of(PROBLEM, DEVICE, [KERNEL])
UNLIMITED, FINALS = Budget(), Finals()


def go(journal: Journal, measurer: Fake, strategy: str = "exhaustive", budget: Budget = UNLIMITED, batch: int = 16,
       finals: Finals = FINALS, seen: list[TuningProgress] | None = None) -> TuningResult:
    seen = [] if seen is None else seen
    return tune(TASK, journal, measurer, budget,
                TuningOptions(strategy, batch=batch, finals=finals, progress=seen.append))


def test_the_finals_decide(journal: Journal) -> None:
    measurer = Fake()
    result = go(journal, measurer)
    assert len(measurer.measured) == len(set(measurer.measured)) == result.done == result.space
    (finalists,) = measurer.compared
    assert len(finalists) == 6
    assert result.default == Configuration.of("test.k", {"x": 0, "y": 0})
    assert {result.default, Configuration.of("test.k", {"x": 4, "y": 6})} < set(finalists)
    assert result.configuration == Configuration.of("test.k", {"x": 4, "y": 5})  # (4, 6) is the best trial
    assert result.measurement is not None
    assert result.measurement.seconds == 1.0
    assert [record.run for record in journal.records()] == ["exhaustive"] * result.space + ["final"] * 6
    assert journal.devices() == {DEVICE.key: DEVICE}


def test_recorded_trials_are_not_measured_again(journal: Journal) -> None:
    first = go(journal, Fake())
    again = Fake()
    seen: list[TuningProgress] = []
    second = go(journal, again, seen=seen)
    assert again.measured == []
    assert again.compared == []
    assert second.resumed == second.done == first.done == len(seen)
    assert (second.configuration, second.finalists) == (first.configuration, first.finalists)


@pytest.mark.parametrize("strategy", ["exhaustive", "random", "local", "portfolio", "droplet"])
def test_a_trial_budget_counts_recorded_trials(journal: Journal, strategy: str) -> None:
    first, second, third = Fake(), Fake(), Fake()
    assert go(journal, first, strategy, Budget(trials=20)).done == 20
    assert len(first.measured) == 20
    resumed = go(journal, second, strategy, Budget(trials=30)).resumed
    assert resumed == 20 or (strategy == "local" and 10 <= resumed < 20)  # it explores for half of its budget
    assert len(second.measured) == 30 - resumed
    go(journal, third, strategy, Budget(trials=30))
    assert third.measured == []


def test_progress_is_reported_after_the_journal_has_the_trial(journal: Journal) -> None:
    def look(progress: TuningProgress) -> None:
        recorded = [record.configuration for record in journal.records(PROBLEM)]
        assert recorded[-1] == progress.configuration
        assert len(recorded) == progress.done
        assert progress.total == 12

    tune(TASK, journal, Fake(), Budget(trials=12), TuningOptions("random", progress=look))


def test_ctrl_c_stops_with_everything_in_the_journal(journal: Journal) -> None:
    measurer = Fake(interrupt_at=25)
    with pytest.raises(InterruptedTuning, match=r"stopped after 25 trials of gemm .* run again to resume"):
        go(journal, measurer)
    assert [record.configuration for record in journal.records()] == measurer.measured
    rest = Fake()
    go(journal, rest)
    assert not set(rest.measured) & set(measurer.measured)


def test_without_finals_the_best_trial_wins(journal: Journal) -> None:
    measurer = Fake()
    result = go(journal, measurer, finals=Finals(count=0))
    assert measurer.compared == []
    assert result.configuration == Configuration.of("test.k", {"x": 4, "y": 6})
    assert [configuration for configuration, _ in result.finalists] == [result.configuration, result.default]


def test_the_finals_are_decided_by_the_typical_time_and_not_by_a_lucky_sample(journal: Journal) -> None:
    lucky = Configuration.of("test.k", {"x": 4, "y": 6})

    class Lucky(Fake):
        def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                    options: Options) -> list[Measurement]:
            measured = super().compare(problem, configurations, rounds, options)
            return [replace(measurement, samples=(0.5 if configuration == lucky else seconds,) + (seconds,) * 15)
                    for configuration, measurement in zip(configurations, measured, strict=True)
                    for seconds in measurement.samples]

    result = go(journal, Lucky())
    assert result.configuration == Configuration.of("test.k", {"x": 4, "y": 5})
    assert result.seconds[lucky] == 2.0 > dict(result.finalists)[lucky].seconds == 0.5
    assert [configuration for configuration, _ in result.finalists] == sorted(
        result.seconds, key=result.seconds.__getitem__)
    assert result.confidence is not None
    assert 0.99 < result.confidence < 1, "it leads in 15 of 16 rounds"


def test_trials_that_were_timed_alone_are_ranked_by_their_least_time_and_give_no_confidence(journal: Journal) -> None:
    class Noisy(Fake):
        def time(self, configuration: Configuration, best_y: int) -> Measurement:
            (seconds,) = super().time(configuration, best_y).samples or (0.0,)
            return Measurement(Status.CORRECT, (seconds + 1, seconds + 9, seconds + 10 * (seconds != 1.0)))

    result = go(journal, Noisy(), finals=Finals(count=0))
    assert result.configuration is not None
    assert result.seconds[result.configuration] == min(measurement.seconds for _, measurement in result.finalists)
    assert result.confidence is None


def test_noisy_finals_are_held_again_for_longer(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.run.finals.are_noisy", are_noisy)  # in other tests they never are

    class Noisy(Fake):
        def __init__(self) -> None:
            super().__init__()
            self.rounds: list[int] = []

        def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                    options: Options) -> list[Measurement]:
            self.rounds.append(rounds)
            return [replace(measurement, samples=tuple(seconds * (1 + turn % 3) for turn in range(rounds)
                                                       for seconds in measurement.samples))
                    for measurement in super().compare(problem, configurations, rounds, options)]

    measurer = Noisy()
    result = go(journal, measurer)
    assert measurer.rounds == [FINALS.rounds, FINALS.more_rounds]
    assert result.measurement is not None
    assert len(result.measurement.samples) == FINALS.more_rounds


def test_a_problem_set_skips_problems_that_no_kernel_solves(journal: Journal) -> None:
    problems = [PROBLEM, Problem.make("gemm", m=200, n=4, k=5), Problem.make("gemm", m=4, n=4, k=5)]
    plan = Plan(problems, Budget(trials=3), TuningOptions("random"), partial(Task.of, kernels=[KERNEL]))
    run = LocalRun(plan, journal, Fake())
    assert [result.problem for result in run.results()] == [problems[0], problems[2]]
    (skipped,) = run.skipped
    assert "m is too large" in skipped.reason
    with pytest.raises(KernelError):
        Task.of(problems[1], DEVICE, [KERNEL])


class Unprepared(Fake):
    """A measurer that cannot make the operands of one problem."""

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        if problem != PROBLEM:
            raise UnpreparedError("no memory for the operands")
        yield from super().measure(problem, configurations, options, best)


def test_a_problem_that_cannot_be_measured_is_skipped_if_there_are_others(journal: Journal) -> None:
    other = Problem.make("gemm", m=4, n=4, k=5)
    plan = Plan([other, PROBLEM], Budget(trials=6), TuningOptions("random"), partial(Task.of, kernels=[KERNEL]))
    run = LocalRun(plan, journal, Unprepared())
    assert [(result.problem, result.done) for result in run.results()] == [(PROBLEM, 6)]
    (skipped,) = run.skipped
    assert (skipped.problem, skipped.reason) == (other, "no memory for the operands")
    with pytest.raises(UnpreparedError, match="no memory"):
        list(LocalRun(replace(plan, problems=[other]), journal, Unprepared()).results())


SCRIPT = """
import sys
import planted
from seqtune.data.journal.journal import Journal
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.runner import Runner
from seqtune.kernels.task import Task
from seqtune.tuner.run.local_run import tune
from seqtune.tuner.run.plan import Finals, TuningOptions

with Journal(sys.argv[1]) as journal, \\
        Runner(planted.DEVICE, planted.BACKEND, planted.KERNELS, planted.PATH) as runner:
    tune(Task.of(Problem.make("gemm", m=9, n=8, k=8), planted.DEVICE, [planted.GOOD]), journal, runner,
         options=TuningOptions(
             "exhaustive", finals=Finals(count=0),
             measuring=Options(samples=4, drop_factors=(1e9,), sample_seconds=float(sys.argv[2])),
             progress=lambda progress: print(progress.configuration.key, progress.resumed, flush=True)))
"""


def start(path: Path, start_new_session: bool = False, sample_seconds: float = 2e-3) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(sample_seconds)], stdout=subprocess.PIPE,
                            text=True, stderr=subprocess.DEVNULL, start_new_session=start_new_session,
                            env={**os.environ, "PYTHONPATH": planted.PATH[0], "OMP_NUM_THREADS": "1"})


def reported(process: subprocess.Popen[str]) -> list[str]:
    """The configurations of the complete lines that the process still prints."""
    assert process.stdout is not None
    lines = [line.rpartition(" ") for line in process.stdout.read().split("\n")[:-1]]
    return [key for key, _, _ in lines]


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_in_a_terminal_ends_the_tuner_and_its_worker(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with start(path, start_new_session=True, sample_seconds=0.2) as process:  # undisturbed it takes two minutes
        assert process.stdout is not None
        seen = [process.stdout.readline().rpartition(" ")[0]]
        os.killpg(process.pid, signal.SIGINT)  # a terminal interrupts the whole group
        seen += reported(process)
        assert process.wait(timeout=60.0) == 1
    with Journal(path) as journal:
        assert [record.configuration.key for record in journal.records()] == seen
        assert all(record.measurement.status is Status.CORRECT for record in journal.records())
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # no process of the group is left


@pytest.mark.slow
def test_a_killed_tuner_loses_no_measurement_and_repeats_none(tmp_path: Path) -> None:
    """SIGKILL ends the tuner at six seeded random moments: at start, while it opens the journal, while it measures."""
    path = tmp_path / "journal.sqlite"
    generator = random.Random(20)
    seen: set[str] = set()
    when: dict[str, float] = {}
    midway = 0
    for life in range(6):
        with start(path) as process:
            assert process.stdout is not None
            first = ""
            if life % 4:
                while not first.endswith(str(len(when))):  # up to the first trial of this life
                    first = process.stdout.readline().rstrip("\n")
                    assert first, "the tuner ended before it was killed"
                    seen.add(first.rpartition(" ")[0])
                time.sleep(generator.uniform(0, 0.1))
            else:
                time.sleep(generator.uniform(0.05, 0.6))
            process.kill()
            seen.update(reported(process))
        if path.exists():
            with Journal(path) as journal:
                recorded = {record.configuration.key: record.when for record in journal.records()}
            assert seen <= set(recorded)  # none lost
            assert {key: recorded[key] for key in when} == when  # none measured again
            when = recorded
        midway += process.returncode != 0 and 0 < len(when) < 144
    assert midway, "a kill must come between beginning and end"
    with start(path) as last:
        reported(last)
    assert last.returncode == 0
    with start(tmp_path / "undisturbed.sqlite") as undisturbed:
        reported(undisturbed)
    with Journal(path) as journal, Journal(tmp_path / "undisturbed.sqlite") as other:
        trials = [(record.identity, record.measurement.status) for record in journal.records()]
        assert len(trials) == len(set(trials)) == 144
        assert set(trials) == {(record.identity, record.measurement.status) for record in other.records()}
        assert all(record.measurement.status is Status.CORRECT for record in journal.records())


class Failing(Fake):
    """A measurer for which every configuration with x below 2 fails to compile."""

    def time(self, configuration: Configuration, best_y: int) -> Measurement:
        if configuration.number("x") < 2:
            return Measurement(Status.COMPILE, message="no such tile")
        return super().time(configuration, best_y)


def test_a_default_that_fails_is_replaced_by_the_next_one_that_runs(journal: Journal) -> None:
    measurer, stand_in = Failing(), Configuration.of("test.k", {"x": 2, "y": 2})
    result = go(journal, measurer, "random", Budget(trials=12))
    assert result.default == stand_in
    assert dict(result.finalists)[stand_in].status is Status.CORRECT
    assert result.failed_default.startswith(
        "the default configuration of test.k failed: no such tile (x=0 y=0), and so did 1 more")
    assert result.failed_default.endswith("compared with x=2 y=2 instead")
    kept = {record.configuration for record in journal.records() if record.measurement.status is Status.COMPILE}
    assert {TASK.default, Configuration.of("test.k", {"x": 1, "y": 1})} <= kept  # failures are data
    again = Failing()
    resumed = go(journal, again, "random", Budget(trials=12))
    assert (resumed.default, resumed.failed_default, again.compared) == (stand_in, result.failed_default, [])


def test_where_all_fail_the_default_stays_and_the_number_of_tries_is_bounded(journal: Journal) -> None:
    class Broken(Fake):
        def time(self, configuration: Configuration, best_y: int) -> Measurement:
            return Measurement(Status.CRASH, message="signal 6")

    measurer = Broken()
    result = go(journal, measurer, "random", Budget(trials=5))
    assert (result.configuration, result.default) == (None, TASK.default)
    assert len(measurer.compared) <= TRIES + 1
    assert "and so did 7 more" in result.failed_default
    assert len(result.failed) == result.done == 5
