"""Calibration with a fake measurer: what it measures, what it gains, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from itertools import count as count_from

import pytest

from benchmarks.data.locked_problems import locked_problems
from seqtune.api.calibrating import CalibrationProgress, measure_probes
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import InterruptedTuning, SeqtuneError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.collected import probes
from seqtune.kernels.problem_sets.kinds import KINDS, kind_of
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.timing import Options
from tests.support.learning.synthetic_ranker import ranker
from tests.support.synthetic import MIDDLE, problems, time_of

pytestmark = pytest.mark.usefixtures("fake_kernel")
PROBLEMS = problems(12)
ENDLESS = Deadline()


class Synthetic:
    """Measures the synthetic kernel; with `stop`, Ctrl-C comes after that many measurements."""

    device = MIDDLE

    def __init__(self, stop: int = -1) -> None:
        self.measured: list[tuple[Problem, Configuration]] = []
        self.stop = stop

    def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
        for configuration in configurations:
            if len(self.measured) == self.stop:
                raise KeyboardInterrupt
            self.measured.append((problem, configuration))
            taken = time_of(problem, MIDDLE, configuration)
            yield configuration, (Measurement(Status.CORRECT, (taken,)) if math.isfinite(taken)
                                  else Measurement(Status.COMPILE))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: Options) -> list[Measurement]:
        raise NotImplementedError


def run(journal: Journal, measurer: Synthetic, deadline: Deadline = ENDLESS,
        turns: int = 8) -> tuple[int, float | None, float | None]:
    """Calibrate for some turns; the number of probes and the errors before and after."""
    seen: list[CalibrationProgress] = []

    def on_turn(turn: CalibrationProgress) -> None:
        seen.append(turn)
        if len(seen) == turns:
            raise KeyboardInterrupt

    if turns:
        with pytest.raises(InterruptedTuning, match="run again to go on"):
            measure_probes(PROBLEMS[:6], MIDDLE, ranker(), journal, measurer, deadline, 0, on_turn)
        return seen[-1].probes, math.nan, math.nan
    count, fit = measure_probes(PROBLEMS[:6], MIDDLE, ranker(), journal, measurer, deadline, 0, on_turn)
    return count, fit.error_before, fit.error_after


def test_every_problem_has_a_turn_before_any_has_a_second_one(journal: Journal) -> None:
    measurer = Synthetic()
    run(journal, measurer, turns=6)
    assert {problem for problem, _ in measurer.measured} == set(PROBLEMS[:6])
    assert len(set(measurer.measured)) == len(measurer.measured)


def counting(seconds: float) -> Deadline:
    """A deadline whose clock moves by a second whenever it is read."""
    clock = count_from(0)
    return Deadline(seconds, lambda: float(next(clock)))


def test_the_end_of_the_time_ends_a_calibration_with_its_gain(journal: Journal) -> None:
    count, before, after = run(journal, Synthetic(), counting(200.0), turns=0)
    assert 100 < count < 200, "the clock is read once for each probe, and some times for each turn"
    assert before is not None
    assert after is not None
    assert 0 < after <= before


def test_a_calibration_without_the_time_for_a_probe_says_so(journal: Journal) -> None:
    class Late(Synthetic):
        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            assert options.budget < 1.2 * 40.0
            yield from ()

    with pytest.raises(SeqtuneError) as caught:
        measure_probes(PROBLEMS[:6], MIDDLE, ranker(), journal, Late(), counting(40.0), 0, lambda turn: None)
    assert "no probe could be measured" in str(caught.value)
    assert "give more (--seconds; 180 by default)" in str(caught.value)


def test_default_probes_are_of_every_kind_and_not_of_the_locked_test_set() -> None:
    chosen = probes()
    assert {kind_of(problem) for problem in chosen} == set(KINDS)
    assert len({kind_of(problem) for problem in chosen[:len(KINDS)]}) == len(KINDS), "every kind has a turn first"
    locked = SimilarityIndex(locked_problems())
    assert not any(locked.has_near(problem) for problem in chosen)


def test_an_interrupted_calibration_measures_nothing_twice(journal: Journal) -> None:
    first, second = Synthetic(stop=40), Synthetic()
    with pytest.raises(InterruptedTuning, match="40 probes"):
        measure_probes(PROBLEMS[:6], MIDDLE, ranker(), journal, first, ENDLESS, 0, lambda turn: None)
    run(journal, second)
    assert len(first.measured) == 40
    assert second.measured
    assert not set(first.measured) & set(second.measured)
