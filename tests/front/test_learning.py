"""Evaluation as the front calls it: what the methods learn from, and what is measured on the spot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from seqtune import learning as learn
from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.predictor.say import silent
from seqtune.predictor.times.live import LiveMeasure
from seqtune.tuner.backends.discovery import find
from tests.support.synthetic import DIRECT, NARROW, WIDE, data

pytestmark = pytest.mark.usefixtures("fake_kernel")

PROBLEM = Problem.make("gemm", m=8, n=8, k=8)


def choice(number: int) -> Configuration:
    return Configuration.of("fake", {"number": number})


def test_the_methods_learn_the_same_whether_one_device_or_all_are_judged(tmp_path: Path) -> None:
    made = data(8, held_out=3, sampled=60)
    rows = made.frame.assign(kernel_version=DIRECT.version, spread=0.0, samples=10, error=0.0, build_seconds=0.0,
                             toolchain="toy")
    problems = {key: parse_problem(key) for key in rows["problem"].unique()}
    held_out = frozenset(rows["problem"][rows["held_out"]])
    Dataset(rows, made.devices, problems, held_out).write(tmp_path / "data.parquet")
    answers = {device: learn.evaluate(tmp_path / "data.parquet", methods=["trees", "default"], device=device)
               for device in (None, WIDE.name)}
    found = {device: answer.to_json()["rows"] for device, answer in answers.items()}
    assert {row["device"] for row in found[None]} == {WIDE.name, NARROW.name}
    assert found[WIDE.name] == [row for row in found[None] if row["device"] == WIDE.name]


def test_a_live_evaluation_says_which_problems_were_learned_from(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known, twin, held, new = (Problem.make("gemm", m=m, n=32, k=32) for m in (32, 35, 100, 300))
    assert near(known, twin)
    place = find("llvm:0")
    spaces = {problem: SearchSpace(kernel("llvm.gemm"), problem, place) for problem in (known, held)}
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(place)
        for problem, space in spaces.items():
            journal.add(Record(problem, place.key, space.kernel.version, space.default, place.toolchain,
                               Measurement(Status.CORRECT, (1e-3,), 0.0), 1.0, "random"))
        Dataset.from_journal(journal, held_out=[held.key]).write(tmp_path / "data.parquet")

    def measured(self: object, problem: Problem, device: Device,
                 wanted: Sequence[Configuration]) -> list[Measurement]:
        return [Measurement(Status.CRASH) if problem == twin else Measurement(Status.CORRECT, (1e-3,))] * len(wanted)

    monkeypatch.setattr(LiveMeasure, "__call__", measured)
    told: list[str] = []
    found = learn.evaluate(tmp_path / "data.parquet", methods=["default"], live=True, problems=[known, twin, held, new],
                           device=place, warn=told.append).to_json()["rows"]
    assert told[0].startswith("2 of 4 problems are, or nearly are, training problems")
    assert told[1:] == [f"left out: no configuration of {twin.brief()} ran on {place.name}"]
    assert {(row["problems"], row["trained_on"]) for row in found} == {(3, 1)}
    with pytest.warns(UserWarning, match="1 of 1 problems"):
        learn.evaluate(tmp_path / "data.parquet", methods=["default"], live=True, problems=known, device=place)


TRIALS = {choice(number): 1.0 + number / 1000 for number in range(20)}


class FakeRunner:
    """Trials take as long as TRIALS says; finals a tenth of a second more, or what `finals` says."""

    finals: Mapping[Configuration, float] = MappingProxyType({})

    def __init__(self, device: object) -> None:
        pass

    def measure(self, problem: Problem, configurations: Sequence[Configuration],
                options: object) -> Iterator[tuple[Configuration, Measurement]]:
        for configuration in configurations:
            yield configuration, Measurement(Status.CORRECT, (TRIALS[configuration],))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: object) -> list[Measurement]:
        return [Measurement(Status.CORRECT, (self.finals.get(one, TRIALS[one] + 0.1),)) for one in configurations]

    def close(self) -> None:
        pass


def live(monkeypatch: pytest.MonkeyPatch, finals: Mapping[Configuration, float]) -> list[float]:
    """The measurements that a live evaluation receives for TRIALS."""
    monkeypatch.setattr("seqtune.predictor.times.live.Runner", FakeRunner)
    monkeypatch.setattr(FakeRunner, "finals", finals)
    with LiveMeasure(WIDE, silent) as measure:
        return [measurement.seconds for measurement in measure(PROBLEM, WIDE, list(TRIALS))]


def test_a_lucky_trial_does_not_beat_the_best_of_the_finals(monkeypatch: pytest.MonkeyPatch) -> None:
    times = live(monkeypatch, {choice(0): 1.3})
    assert times[0] == 1.3
    assert times[1:12] == pytest.approx([1.1 + number / 1000 for number in range(1, 12)])
    assert times[12:] == [times[1]] * 8, "their trials were faster than the best final"


def test_where_no_final_runs_the_trials_count(monkeypatch: pytest.MonkeyPatch) -> None:
    times = live(monkeypatch, dict.fromkeys(TRIALS, math.inf))
    assert times[12:] == pytest.approx([1.0 + number / 1000 for number in range(12, 20)])
