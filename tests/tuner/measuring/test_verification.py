"""Verification with a fake measurer whose true times are known."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from seqtune.data.record import Measurement, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.load import Load, LoadMeter
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.verification import RULE, decide, verify
from tests.support.measuring.noisy_measurer import DEFAULT, PROBLEM, NoisyMeasurer, SlowMeasurer, choice, run


def test_a_clearly_faster_candidate_wins_with_its_speedup() -> None:
    verdict = run([2.0, 1.0, 1.8])
    assert verdict.winner == choice(1)
    assert verdict.significant
    assert verdict.speedup == pytest.approx(2.0, rel=0.15)


def test_a_wrong_candidate_never_wins_however_fast_it_is() -> None:
    for seed in range(10):
        for status in (Status.CORRECTNESS, Status.CRASH, Status.TIMEOUT, Status.COMPILE):
            verdict = run([1.0, 0.01, 1.0], seed, {1: status})
            assert verdict.winner != choice(1)
            assert verdict.measurements[choice(1)].status is status


def test_a_slow_candidate_never_wins() -> None:
    for seed in range(50):
        verdict = run([1.0, 1.1, 3.0], seed)
        assert verdict.winner == DEFAULT
        assert verdict.speedup == 1.0
        assert not verdict.significant


def test_equal_candidates_win_no_oftener_than_stated() -> None:
    wins = sum(run([1.0] * 6, seed).winner != DEFAULT for seed in range(100))
    assert wins <= 100 * RULE.level


class LuckyBuilds(NoisyMeasurer):
    """Each build runs some percent faster or slower than another, as long as it lives."""

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        truth = self.truth
        self.truth = {configuration: time * float(np.exp(self.generator.normal(0, 0.02)))
                      for configuration, time in truth.items()}
        measurements = super().compare(problem, configurations, rounds, options)
        self.truth = truth
        return measurements


def test_lucky_builds_win_seldom() -> None:
    candidates, wins = [choice(number) for number in range(1, 6)], 0
    for seed in range(200):
        measurer = LuckyBuilds(dict.fromkeys([DEFAULT, *candidates], 1.0), seed)
        wins += verify(measurer, PROBLEM, candidates, DEFAULT, seconds=600.0).winner != DEFAULT
    assert wins <= 7  # two are to be expected, ten with three batches


def test_a_candidate_faster_by_less_than_the_margin_is_a_tie() -> None:
    wins = sum(run([1.0, 0.995, 0.995], seed).winner != DEFAULT for seed in range(100))
    assert wins <= 100 * RULE.level


def test_a_tenth_faster_is_found_nearly_always_in_spite_of_outliers() -> None:
    wins = sum(run([1.0, 0.9, 1.05, 1.3], seed).winner == choice(1) for seed in range(50))
    assert wins >= 45


def test_hopeless_candidates_are_not_compared_but_the_default_always_is() -> None:
    times = {choice(number): time for number, time in enumerate([9.0, 1.0, 1.1, 2.0])}
    measurer = NoisyMeasurer(times, 0)
    verify(measurer, PROBLEM, [choice(1), choice(2), choice(3)], DEFAULT, seconds=600.0)
    assert set(measurer.compared) == {DEFAULT, choice(1), choice(2)}


class UnluckyBuild(NoisyMeasurer):
    """The first build of candidate 1 takes twice as long as others. `alone` is the time when stage one has ended."""

    def __init__(self, truth: Mapping[Configuration, float], second: Measurement | None = None,
                 alone: float = 0.0) -> None:
        super().__init__(truth, 0)
        self.second, self.builds = second, Counter[Configuration]()
        self.now, self.alone = 0.0, alone

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration, measurement in super().measure(problem, configurations, options, best):
            self.builds[configuration] += 1
            if configuration == choice(1) and self.builds[configuration] == 1:
                measurement = replace(measurement, samples=tuple(2 * seconds for seconds in measurement.samples))
            elif configuration == choice(1) and self.second is not None:
                measurement = self.second
            yield configuration, measurement
        self.now = self.alone


TRUTH = {DEFAULT: 1.0, choice(1): 0.7, choice(2): 0.9, choice(3): 3.0}
CANDIDATES = [choice(1), choice(2), choice(3)]


def test_a_candidate_is_dropped_after_two_builds_and_one_unlucky_build_does_not_cost_it_the_win() -> None:
    measurer = UnluckyBuild(TRUTH)
    verdict = verify(measurer, PROBLEM, CANDIDATES, DEFAULT, seconds=600.0)
    assert verdict.winner == choice(1)
    assert measurer.builds == {DEFAULT: 1, choice(1): 2, choice(2): 1, choice(3): 2}
    assert set(verdict.rebuilt) == {choice(1), choice(3)}
    assert choice(3) not in verdict.paired
    assert len(verdict.measurements[choice(3)].samples) == 20, "the samples of both builds are kept"


def test_without_time_for_a_second_build_the_first_one_decides_and_is_marked() -> None:
    measurer = UnluckyBuild(TRUTH, alone=400.0)
    verdict = verify(measurer, PROBLEM, CANDIDATES, DEFAULT, seconds=600.0, clock=lambda: measurer.now)
    assert set(measurer.builds.values()) == {1}
    assert (verdict.winner, verdict.rebuilt) == (choice(2), ())


def test_a_candidate_that_fails_in_its_second_build_has_failed() -> None:
    wrong = Measurement(Status.CORRECTNESS, message="now and then")
    verdict = verify(UnluckyBuild(TRUTH, wrong), PROBLEM, CANDIDATES, DEFAULT, seconds=600.0)
    assert verdict.winner == choice(2)
    assert verdict.measurements[choice(1)] == wrong


def test_a_candidate_that_turns_wrong_in_the_comparison_does_not_win() -> None:
    measurer = NoisyMeasurer({DEFAULT: 1.0, choice(1): 0.5, choice(2): 0.6}, 0)
    measurer.failing_later[choice(1)] = Measurement(Status.CORRECTNESS, message="now and then")
    verdict = verify(measurer, PROBLEM, [choice(1), choice(2)], DEFAULT, seconds=600.0)
    assert verdict.winner == choice(2)
    assert verdict.measurements[choice(1)].message == "now and then"


def test_only_what_ran_in_the_same_rounds_is_paired() -> None:
    measurements = {choice(number): Measurement(Status.CORRECT, (time,) * 18)
                    for number, time in enumerate((1.0, 0.5, 0.6))}
    assert decide(measurements, DEFAULT, list(measurements)).winner == choice(1)
    assert decide(measurements, DEFAULT, [DEFAULT, choice(2)]).winner == choice(2)
    assert decide(measurements, DEFAULT, [choice(1), choice(2)]).winner == DEFAULT


def test_what_a_journal_keeps_gives_the_same_verdict_again() -> None:
    verdict = run([1.0, 0.9, 1.05, 2.0])
    again = decide(verdict.measurements, DEFAULT, verdict.paired)
    assert again == replace(verdict, hopeless=(), rebuilt=())
    assert verdict.paired == (DEFAULT, choice(1), choice(2))


def test_batches_differ_in_the_order_of_building_and_of_the_rounds() -> None:
    candidates = [choice(number) for number in range(1, 6)]
    measurer = NoisyMeasurer(dict.fromkeys([DEFAULT, *candidates], 1.0), 0)
    verify(measurer, PROBLEM, candidates, DEFAULT, seconds=600.0)
    orders = np.array([configuration.number("number") for configuration in measurer.compared]).reshape(6, 6)
    assert len(set(measurer.order_seeds)) == 6
    successors = {(int(former), int(latter)) for row in orders
                  for former, latter in zip(row, np.roll(row, -1), strict=True)}
    assert len(successors) > 12, "rotated, the six of them have six successors"


def test_where_the_default_fails_the_fastest_correct_candidate_is_returned_without_a_claim() -> None:
    verdict = run([1.0, 0.8, 0.5], failing={0: Status.CRASH})
    assert (verdict.winner, verdict.speedup, verdict.significant) == (choice(2), None, False)


def test_where_nothing_runs_there_is_no_winner() -> None:
    assert run([1.0, 0.5], failing={0: Status.CRASH, 1: Status.RUNTIME}).winner is None


def test_a_default_among_the_candidates_is_measured_once_and_keeps_its_place() -> None:
    times = {DEFAULT: 1.0, choice(1): 1.0}
    verdict = verify(NoisyMeasurer(times, 3), PROBLEM, [DEFAULT, choice(1)], DEFAULT, seconds=600.0)
    assert len(verdict.measurements) == 2
    assert verdict.winner == DEFAULT


def test_the_error_of_the_check_survives_the_rounds() -> None:
    assert run([1.0, 0.9]).measurements[choice(1)].error == 1e-7


@pytest.mark.parametrize(("others", "loaded"), [(0.5, True), (0.0, False)])
def test_a_verdict_under_load_is_marked(others: float, loaded: bool) -> None:
    class Meter(LoadMeter):
        def load(self) -> Load:
            return Load(others=others)

    measurer = NoisyMeasurer({DEFAULT: 1.0, choice(1): 0.5}, 0)
    verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=600.0, open_meter=Meter)
    assert (verdict.loaded, verdict.winner) == (loaded, choice(1))


def test_where_the_default_fails_the_first_stand_in_that_runs_takes_its_place() -> None:
    candidate, broken, stand_in = choice(1), choice(2), choice(3)
    measurer = NoisyMeasurer({candidate: 1.0, stand_in: 2.0}, 0,
                             {DEFAULT: Status.COMPILE, broken: Status.TIMEOUT})
    verdict = verify(measurer, PROBLEM, [candidate], DEFAULT, seconds=600.0, stand_ins=lambda: [broken, stand_in])
    assert (verdict.default, verdict.winner, verdict.significant) == (stand_in, candidate, True)
    assert verdict.speedup == pytest.approx(2.0, rel=0.15)
    assert [verdict.measurements[failed].status for failed in (DEFAULT, broken)] == [Status.COMPILE, Status.TIMEOUT]


def test_no_stand_in_is_tried_when_the_time_is_over() -> None:
    measurer = SlowMeasurer({choice(1): 1.0, choice(3): 1.0}, 4.0, {DEFAULT: Status.COMPILE, choice(2): Status.COMPILE})
    verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=10.0, clock=lambda: measurer.now,
                     stand_ins=lambda: [choice(2), choice(3)])
    assert (verdict.default, verdict.winner, verdict.speedup) == (DEFAULT, choice(1), None)
    assert choice(2) in verdict.measurements
    assert choice(3) not in verdict.measurements
