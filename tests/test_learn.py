"""Evaluation as the front calls it: what the methods learn from, and what is measured on the spot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from seqtune import learn
from seqtune.data.dataset import Dataset
from seqtune.data.record import Measurement, Status
from seqtune.inputs import silent
from seqtune.kernels.forms import parse_problem
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from tests.synthetic import DIRECT, NARROW, WIDE, data

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
    found = {device: learn.evaluate(tmp_path / "data.parquet", methods=["trees", "default"], device=device)
             for device in (None, WIDE.name)}
    assert {row["device"] for row in found[None]} == {WIDE.name, NARROW.name}
    assert found[WIDE.name] == [row for row in found[None] if row["device"] == WIDE.name]


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
    """What a live evaluation takes the TRIALS to be."""
    from seqtune.tuner import runner

    monkeypatch.setattr(runner, "Runner", FakeRunner)
    monkeypatch.setattr(FakeRunner, "finals", finals)
    with learn._LiveMeasure(WIDE, silent) as measure:
        return [measurement.seconds for measurement in measure(PROBLEM, WIDE, list(TRIALS))]


def test_a_lucky_trial_does_not_beat_the_best_of_the_finals(monkeypatch: pytest.MonkeyPatch) -> None:
    times = live(monkeypatch, {choice(0): 1.3})
    assert times[0] == 1.3
    assert times[1:12] == pytest.approx([1.1 + number / 1000 for number in range(1, 12)])
    assert times[12:] == [times[1]] * 8, "their trials were faster than the best final"


def test_where_no_final_runs_the_trials_count(monkeypatch: pytest.MonkeyPatch) -> None:
    times = live(monkeypatch, dict.fromkeys(TRIALS, math.inf))
    assert times[12:] == pytest.approx([1.0 + number / 1000 for number in range(12, 20)])
