"""Calibration with a fake measurer: what it measures, what it gains, and how it goes on."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from functools import cache
from itertools import count as count_from
from pathlib import Path

import numpy as np
import pytest

from benchmarks.data.locked_problems import locked_problems
from benchmarks.data.problem_kinds import KINDS, kind_of
from seqtune import device_evidence as evidence_module
from seqtune.calibration import Calibrated, CalibrationProgress, calibrate
from seqtune.data.device_times import device_times, own_times
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.device_evidence import device_evidence
from seqtune.errors import FormatError, InterruptedTuning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.probes import probes
from seqtune.kernels.problem_sets.similarity import SimilarityIndex
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.times.model import TimesModel
from seqtune.predictor.times.translator import Translator
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from seqtune.tuner.measuring.deadline import Deadline
from seqtune.tuner.measuring.timing import Options
from tests.support.learning.interruptions import interrupted
from tests.support.synthetic import DIRECT, MIDDLE, WIDE, problems, seconds, time_of

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


@cache
def ranker() -> Ranker:
    fitting = []
    for problem in problems(24)[12:]:
        space = SearchSpace(DIRECT, problem, WIDE)
        times = seconds(space)
        times[np.arange(len(space)) % max(1, len(space) // 40) > 0] = np.nan
        fitting.append(MeasuredTask(Task(problem, WIDE, (space,)), times))
    return Ranker.of(Trees(fitting, TreesOptions(rounds=20, models=1, depth=4, threads=1)))


def run(journal: Journal, measurer: Synthetic, deadline: Deadline = ENDLESS,
        turns: int = 8) -> tuple[int, float | None, float | None]:
    """Calibrate for some turns; the number of probes and the shares before and after."""
    seen: list[CalibrationProgress] = []

    def on_turn(turn: CalibrationProgress) -> None:
        seen.append(turn)
        if len(seen) == turns:
            raise KeyboardInterrupt

    if turns:
        with pytest.raises(InterruptedTuning, match="run again to go on"):
            calibrate(PROBLEMS[:6], MIDDLE, ranker(), journal, measurer, deadline, 0, on_turn)
        return seen[-1].probes, math.nan, math.nan
    count, fit = calibrate(PROBLEMS[:6], MIDDLE, ranker(), journal, measurer, deadline, 0, on_turn)
    return count, fit.before, fit.after


def test_every_problem_has_a_turn_before_any_has_a_second_one(journal: Journal) -> None:
    measurer = Synthetic()
    run(journal, measurer, turns=6)
    assert {problem for problem, _ in measurer.measured} == set(PROBLEMS[:6])
    assert len(set(measurer.measured)) == len(measurer.measured)


def test_an_interrupted_calibration_measures_nothing_twice(journal: Journal) -> None:
    first, second = Synthetic(stop=40), Synthetic()
    with pytest.raises(InterruptedTuning, match="40 probes"):
        calibrate(PROBLEMS[:6], MIDDLE, ranker(), journal, first, ENDLESS, 0, lambda turn: None)
    run(journal, second, turns=8)
    assert len(first.measured) == 40
    assert not set(first.measured) & set(second.measured)


def counting(seconds: float) -> Deadline:
    """A deadline whose clock moves by a second whenever it is read."""
    clock = count_from(0)
    return Deadline(seconds, lambda: float(next(clock)))


def test_the_end_of_the_time_ends_a_calibration_with_its_gain(journal: Journal) -> None:
    count, before, after = run(journal, Synthetic(), counting(200.0), turns=0)
    assert 100 < count < 200, "the clock is read once for each probe, and some times for each turn"
    assert before is not None
    assert after is not None
    assert 0 < before <= 1
    assert 0 < after <= 1


def test_a_calibration_in_which_nothing_ran_claims_no_shares(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "time_of", lambda *given: math.inf)
    count, fit = calibrate(PROBLEMS[:6], MIDDLE, ranker(), journal, Synthetic(), counting(40.0), 0, lambda turn: None)
    assert count > 0
    assert (fit.measurements, fit.before, fit.after) == (0, None, None)
    result = Calibrated(MIDDLE, journal.path, count, fit.measurements, fit.problems, fit.before, fit.after)
    assert f"{count} probes on {MIDDLE.name}, of which none ran" in result.conclusion()
    assert result.to_json()["after"] is None


def test_a_calibration_without_the_time_for_a_probe_says_so(journal: Journal) -> None:
    class Late(Synthetic):
        def measure(self, problem: Problem, configurations: Sequence[Configuration], options: Options,
                    best: float = math.inf) -> Generator[tuple[Configuration, Measurement], None, None]:
            assert options.budget < 1.2 * 40.0
            yield from ()

    count, fit = calibrate(PROBLEMS[:6], MIDDLE, ranker(), journal, Late(), counting(40.0), 0, lambda turn: None)
    result = Calibrated(MIDDLE, journal.path, count, fit.measurements, fit.problems, fit.before, fit.after)
    assert count == 0
    assert "no probe could be measured" in result.conclusion()
    assert "give more (--seconds)" in result.conclusion()


def test_default_probes_are_of_every_kind_and_not_of_the_locked_test_set() -> None:
    chosen = probes()
    assert {kind_of(problem) for problem in chosen} == set(KINDS)
    assert len({kind_of(problem) for problem in chosen[:len(KINDS)]}) == len(KINDS), "every kind has a turn first"
    locked = SimilarityIndex(locked_problems())
    assert not any(locked.has_near(problem) for problem in chosen)


def evidence_journal(path: Path, device: Device = MIDDLE) -> None:
    with Journal(path) as journal:
        run(journal, Synthetic(), turns=6)


def checkpoint() -> TimesModel:
    vocabulary = Vocabulary.build([DIRECT], [MIDDLE])
    translator = Translator.of(vocabulary, width=16, layers=1, heads=2, hidden=16)
    return TimesModel.of_translator(translator, vocabulary, ranker=ranker())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> TimesModel:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return checkpoint()


def test_evidence_of_a_journal_is_kept_in_the_cache_until_the_journal_changes(
        model: TimesModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "probes.sqlite"
    assert device_evidence(model, MIDDLE, path) is None, "a missing journal is no evidence, and is not created"
    assert not path.exists()
    evidence_journal(path)
    evidence = device_evidence(model, MIDDLE, path)
    assert evidence is not None
    assert evidence.measurements > 60
    files = list((tmp_path / "cache" / "seqtune" / "corrections").glob("*.safetensors"))
    assert len(files) == 1
    monkeypatch.setattr("seqtune.device_evidence._known", {})
    monkeypatch.setattr("seqtune.predictor.correction.correction.Correction.fit", None)  # another fit would fail
    again = device_evidence(model, MIDDLE, path)
    assert again is not None
    assert again.measurements == evidence.measurements
    task = Task.of(PROBLEMS[8], MIDDLE)
    assert again.correction.changes(task, np.arange(5)) == pytest.approx(
        evidence.correction.changes(task, np.arange(5)), abs=1e-5)


def test_a_damaged_cache_is_fitted_again(model: TimesModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "probes.sqlite"
    evidence_journal(path)
    device_evidence(model, MIDDLE, path)
    (file,) = (tmp_path / "cache" / "seqtune" / "corrections").glob("*.safetensors")
    file.write_bytes(b"no archive")
    monkeypatch.setattr("seqtune.device_evidence._known", {})
    assert device_evidence(model, MIDDLE, path) is not None


def test_threads_that_share_a_checkpoint_get_the_evidence_of_their_own_journals(
        model: TimesModel, tmp_path: Path) -> None:
    first, second = tmp_path / "first.sqlite", tmp_path / "second.sqlite"
    evidence_journal(first)
    second.write_bytes(first.read_bytes())
    for _ in range(2):  # not remembered, then remembered
        evidence = interrupted(lambda: device_evidence(model, MIDDLE, first),
                               lambda: device_evidence(model, MIDDLE, second), evidence_module)
        assert evidence is not None
        assert device_evidence(model, MIDDLE, first) is not None


def test_a_named_journal_that_is_damaged_is_refused(model: TimesModel, tmp_path: Path) -> None:
    path = tmp_path / "damaged.sqlite"
    path.write_bytes(b"x" * 500)
    with pytest.raises(FormatError, match="not a journal"):
        device_evidence(model, MIDDLE, path)


def test_records_of_another_machine_toolchain_or_version_are_no_evidence(journal: Journal) -> None:
    task = Task.of(PROBLEMS[0], MIDDLE)
    good = Measurement(Status.CORRECT, (1e-3,))

    def record(number: int, **changes: object) -> Record:
        fields: dict[str, object] = {"kernel_version": 1, "toolchain": MIDDLE.toolchain, "run": "random",
                                     "machine": MIDDLE.fingerprint, **changes}
        return Record(PROBLEMS[0], MIDDLE.key, configuration=task[number], measurement=good,
                      **fields)  # type: ignore[arg-type]

    for foreign in (record(0, machine="l1=1"), record(1, toolchain="another"), record(2, kernel_version=99)):
        journal.add(foreign)
    assert own_times(journal, task) is None
    assert not device_times(journal, MIDDLE, 5)
    journal.add(record(3))
    journal.add(record(4, run="verify"))
    (measured,) = device_times(journal, MIDDLE, 5)
    assert np.flatnonzero(measured.known).tolist() == [3, 4]
    (trials,) = device_times(journal, MIDDLE, 5, verified=False)
    assert np.flatnonzero(trials.known).tolist() == [3]
