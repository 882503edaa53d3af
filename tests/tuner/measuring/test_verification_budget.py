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
from seqtune.tuner.measuring.timing import Options
from seqtune.tuner.measuring.verification import OverBudget, verify
from tests.support.measuring.noisy_measurer import DEFAULT, PROBLEM, NoisyMeasurer, choice, run


def test_the_rounds_fit_into_the_budget_and_are_never_too_few_for_a_verdict() -> None:
    for time_of_one, seconds, expected in ((0.1, 12.0, 10), (0.02, 1.0, 4), (1e-6, 1.0, 25)):
        measurer = NoisyMeasurer({DEFAULT: time_of_one, choice(1): time_of_one}, 0)
        verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=seconds, clock=lambda: 0.0)
        assert measurer.rounds == pytest.approx(expected, abs=1)
    assert run([1.0, 0.5]).significant


class SlowToBuild(NoisyMeasurer):
    """A batch takes a while before its rounds begin; `now` is its clock."""

    def __init__(self, truth: Mapping[Configuration, float], building: float) -> None:
        super().__init__(truth, 0)
        self.building, self.now = building, 0.0
        self.requested_rounds: list[int] = []

    def _sample(self, configuration: Configuration, drift: float) -> float:
        return self.truth[configuration]

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        self.requested_rounds.append(rounds)
        self.now += self.building + rounds * sum(self.truth[configuration] for configuration in configurations)
        return [Measurement(Status.CORRECT, (self.truth[configuration],) * rounds) for configuration in configurations]


def test_what_building_anew_takes_is_part_of_the_budget() -> None:
    for building, expected in ((0.0, 20), (1.0, 7), (60.0, 3)):
        measurer = SlowToBuild({DEFAULT: 0.05, choice(1): 0.04}, building)
        verdict = verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=11.0, clock=lambda: measurer.now)  # noqa: B023
        assert measurer.requested_rounds[1:] == [expected] * 5
        lengths = {len(measurement.samples) for measurement in verdict.measurements.values()}
        assert lengths == {6 * expected}, "all batches have the same number of rounds"
        assert verdict.winner == choice(1)
        if expected > 3:
            assert 10.0 < measurer.now < 11.1


def test_a_budget_too_small_for_all_leaves_the_slowest_out_of_the_rounds() -> None:
    candidates = [choice(number) for number in range(1, 6)]
    truth = dict(zip([DEFAULT, *candidates], [0.02, 0.017, 0.018, 0.019, 0.02, 0.021], strict=True))
    measurer = NoisyMeasurer(truth, 0)
    verdict = verify(measurer, PROBLEM, candidates, DEFAULT, seconds=1.0, clock=lambda: 0.0)  # 18 rounds take 2.1 s
    assert 2 <= len(set(measurer.compared)) < 6
    assert DEFAULT in measurer.compared
    assert verdict.winner in measurer.compared
    assert set(verdict.measurements) == {DEFAULT, *candidates}


@pytest.mark.parametrize(("peak", "times", "fits"), [
    (1e-6, (1e-4, 1e-4), False),  # 1,024 FLOP at 1,000 FLOP/s: a launch takes a second at least
    (0.0, (0.03, 0.01), True), (0.0, (0.1, 0.01), False), (100.0, (0.03, 0.01), True)])
def test_what_cannot_fit_into_the_budget_is_not_verified(
        peak: float, times: tuple[float, float], fits: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    measurer = NoisyMeasurer(dict(zip((DEFAULT, choice(1)), times, strict=True)), 0)
    monkeypatch.setattr(measurer, "device", replace(measurer.device, peak_gflops=peak))
    if fits:
        assert verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: 0.0).winner == choice(1)
    else:
        with pytest.raises(OverBudget, match="the fewest measurements take about"):
            verify(measurer, PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: 0.0)
        assert not measurer.compared


def test_candidates_for_which_there_is_no_time_stay_without_a_measurement() -> None:
    now = 0.0

    class Slow(NoisyMeasurer):
        def _sample(self, configuration: Configuration, drift: float) -> float:
            nonlocal now
            now += 0.04  # ten samples take 0.4 s
            return super()._sample(configuration, drift)

    candidates = [choice(number) for number in range(1, 9)]
    measurer = Slow({DEFAULT: 1e-3, **dict.fromkeys(candidates, 1e-3)}, 0)
    verdict = verify(measurer, PROBLEM, candidates, DEFAULT, seconds=1.0, clock=lambda: now)
    assert DEFAULT in verdict.measurements
    assert 2 < len(verdict.measurements) < 9


def test_operands_that_take_too_long_are_beyond_the_budget() -> None:
    now = 0.0

    class Unprepared(NoisyMeasurer):
        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            nonlocal now
            now += options.patience
            raise SeqtuneError("not within 10 s")
            yield

    with pytest.raises(OverBudget):
        verify(Unprepared({}, 0), PROBLEM, [choice(1)], DEFAULT, seconds=1.0, clock=lambda: now)
