"""A verification within its time budget, with a fake measurer whose true times are known."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import pytest

from seqtune.data.record import Measurement, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.tuner.measuring.deadline import OutOfTime
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.verification import OverBudget, verify
from tests.support.measuring.noisy_measurer import DEFAULT, PROBLEM, NoisyMeasurer, SlowMeasurer, choice, run


def test_the_rounds_fit_into_the_budget_and_are_never_too_few_for_a_verdict() -> None:
    for time_of_one, seconds, expected in ((0.1, 12.0, 5), (0.01, 1.0, 4), (1e-6, 1.0, 25)):
        measurer = NoisyMeasurer({DEFAULT: time_of_one, choice(1): time_of_one}, 0)
        verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=seconds, clock=lambda: 0.0)
        assert measurer.rounds == pytest.approx(expected, abs=1)
    assert run([1.0, 0.5]).significant


class SlowToBuild(NoisyMeasurer):
    """A batch takes a while before its rounds begin, which `unlucky` has for some batches; `now` is its clock."""

    def __init__(self, truth: Mapping[Configuration, float], building: float,
                 unlucky: Mapping[int, float] | None = None) -> None:
        super().__init__(truth, 0)
        self.building, self.unlucky, self.now = building, unlucky or {}, 0.0
        self.requested_rounds: list[int] = []

    def _sample(self, configuration: Configuration, drift: float) -> float:
        return self.truth[configuration]

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        building = self.unlucky.get(len(self.requested_rounds), self.building)
        self.requested_rounds.append(rounds)
        round_seconds = 2 * sum(self.truth[configuration] for configuration in configurations)
        whole = max(options.fewest_rounds, min(rounds, int((options.planned - building) / round_seconds)))
        self.now += min(options.budget, building + whole * round_seconds)
        if building + whole * round_seconds > options.budget:
            raise OutOfTime("the worker was killed")
        return [Measurement(Status.CORRECT, (self.truth[configuration],) * whole) for configuration in configurations]


def test_what_building_anew_takes_is_part_of_the_budget() -> None:
    for building, expected in ((0.0, 10), (1.0, 4), (1.6, 3)):
        measurer = SlowToBuild({DEFAULT: 0.05, choice(1): 0.04}, building)
        verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=11.0, clock=lambda: measurer.now)  # noqa: B023
        assert measurer.requested_rounds[1:] == [expected] * 5
        lengths = {len(measurement.samples) for measurement in verdict.measurements.values()}
        assert lengths == {6 * expected}, "all batches have the same number of rounds"
        assert verdict.winner == choice(1)
        assert 10.0 < measurer.now < (11.1 if expected > 3 else 1.2 * 11.0)


@pytest.mark.parametrize("building", [2.0, 60.0])
def test_builds_for_which_the_budget_does_not_suffice_end_the_verification_with_the_first_batch(
        building: float) -> None:
    measurer = SlowToBuild({DEFAULT: 0.05, choice(1): 0.04}, building)
    with pytest.raises(OverBudget) as over:
        verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=11.0, clock=lambda: measurer.now)
    assert len(measurer.requested_rounds) == 1
    assert over.value.seconds >= 11.0


def test_a_batch_that_takes_longer_than_planned_shortens_the_others() -> None:
    measurer = SlowToBuild({DEFAULT: 0.05, choice(1): 0.04}, 0.0, {2: 1.0})
    verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=11.0, clock=lambda: measurer.now)
    assert measurer.requested_rounds == [10, 10, 10, 4, 4, 4]
    assert {len(measurement.samples) for measurement in verdict.measurements.values()} == {6 * 4}


def test_a_batch_that_met_other_work_does_not_end_the_verification() -> None:
    measurer = SlowToBuild({DEFAULT: 0.05, choice(1): 0.04}, 0.0, {2: 6.0})
    verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=11.0, clock=lambda: measurer.now)
    assert {len(measurement.samples) for measurement in verdict.measurements.values()} == {6 * 3}
    assert measurer.now <= 1.2 * 11.0


@pytest.mark.parametrize("whole", [3, 5])
def test_rounds_that_the_end_of_the_time_cut_short_are_as_many_in_all_batches(whole: int) -> None:
    class CutShort(NoisyMeasurer):
        def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                    options: Options) -> list[Measurement]:
            assert options.planned <= 600.0
            assert options.budget == pytest.approx(1.2 * 600.0)
            return [replace(measurement, samples=measurement.samples[:whole])
                    for measurement in super().compare(problem, configurations, rounds, options)]

    measurer = CutShort({DEFAULT: 0.02, choice(1): 0.01}, 0)
    verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=600.0, clock=lambda: 0.0)
    assert {len(measurement.samples) for measurement in verdict.measurements.values()} == {6 * whole}


def test_a_budget_too_small_for_all_leaves_the_slowest_out_of_the_rounds() -> None:
    candidates = [choice(number) for number in range(1, 6)]
    truth = dict(zip([DEFAULT, *candidates], [0.006, 0.00525, 0.0055, 0.00575, 0.006, 0.00625], strict=True))
    measurer = NoisyMeasurer(truth, 0)
    verdict = verify(measurer, PROBLEM, candidates, DEFAULT, seconds=1.0, clock=lambda: 0.0)  # 18 rounds take 1.25 s
    assert 2 <= len(set(measurer.compared)) < 6
    assert DEFAULT in measurer.compared
    assert verdict.winner in measurer.compared
    assert set(verdict.measurements) == {DEFAULT, *candidates}


@pytest.mark.parametrize(("peak", "times", "fits"), [
    (1e-6, (1e-4, 1e-4), False),  # 1,024 FLOP at 1,000 FLOP/s: a launch takes a second at least
    (0.0, (0.015, 0.005), True), (0.0, (0.05, 0.005), False), (100.0, (0.015, 0.005), True)])
def test_what_cannot_fit_into_the_budget_is_not_verified(
        peak: float, times: tuple[float, float], fits: bool) -> None:
    measurer = NoisyMeasurer(dict(zip((DEFAULT, choice(1)), times, strict=True)), 0)
    measurer.device = replace(measurer.device, peak_gflops=peak)
    if fits:
        assert verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: 0.0).winner == choice(1)
    else:
        with pytest.raises(OverBudget, match="the fewest measurements take about"):
            verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: 0.0)
        assert not measurer.compared


def test_candidates_for_which_there_is_no_time_stay_without_a_measurement() -> None:
    candidates = [choice(number) for number in range(1, 9)]
    measurer = SlowMeasurer({DEFAULT: 1e-3, **dict.fromkeys(candidates, 1e-3)}, 0.3)
    verdict = verify(measurer, PROBLEM, candidates, DEFAULT, seconds=1.0, clock=lambda: measurer.now)
    assert DEFAULT in verdict.measurements
    assert 2 < len(verdict.measurements) < 9


def test_operands_that_take_too_long_are_beyond_the_budget() -> None:
    now = 0.0

    class Unprepared(NoisyMeasurer):
        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            nonlocal now
            now += options.patience
            raise SeqtuneError("not within 0.5 s")
            yield

    with pytest.raises(OverBudget, match=r"take more than 0\.5 s here"):
        verify(Unprepared({}, 0), PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: now)


def test_a_worker_that_is_not_ready_within_the_budget_verifies_nothing() -> None:
    class Late(NoisyMeasurer):
        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            yield from ()

    with pytest.raises(OverBudget):
        verify(Late({}, 0), PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: 0.0)
