"""Evaluation as the front calls it: what the methods learn from, and what is measured on the spot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
from seqtune.predictor.times.live import LiveContest
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.contest import Contest
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

    def measured(self: object, problem: Problem, device: Device, wanted: Sequence[Configuration]) -> Contest:
        return Contest(dict.fromkeys(wanted, math.inf if problem == twin else 1e-3), {}, {}, {})

    monkeypatch.setattr(LiveContest, "__call__", measured)
    told: list[str] = []
    found = learn.evaluate(tmp_path / "data.parquet", methods=["default"], live=True, problems=[known, twin, held, new],
                           device=place, warn=told.append).to_json()["rows"]
    assert told[0].startswith("2 of 4 problems are, or nearly are, training problems")
    assert told[1:] == [f"left out: no configuration of {twin.brief()} ran on {place.name}"]
    assert {(row["problems"], row["trained_on"]) for row in found} == {(3, 1)}
    with pytest.warns(UserWarning, match="1 of 1 problems"):
        learn.evaluate(tmp_path / "data.parquet", methods=["default"], live=True, problems=known, device=place)


TIMES = {choice(number): 1e-3 * (1 + number / 100) for number in range(5)}


class FakeRunner:
    """Every build is slower than the one before by a tenth, for all configurations alike."""

    def __init__(self, device: object) -> None:
        self.builds, self.closed = 0, 0

    def measure(self, problem: Problem, configurations: Sequence[Configuration],
                options: object, best: float = math.inf) -> Iterator[tuple[Configuration, Measurement]]:
        for configuration in configurations:
            yield configuration, Measurement(Status.CORRECT, (TIMES[configuration],))

    def compare(self, problem: Problem, configurations: Sequence[Configuration], rounds: int,
                options: object) -> list[Measurement]:
        self.builds += 1
        return [Measurement(Status.CORRECT, (TIMES[configuration] * (1 + self.builds / 10),) * rounds)
                for configuration in configurations]

    def close(self) -> None:
        self.closed += 1


def test_a_live_evaluation_holds_one_contest_with_a_new_worker_for_every_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.predictor.times.live.Runner", FakeRunner)
    with LiveContest(WIDE, silent) as measure:
        contest = measure(PROBLEM, WIDE, list(TIMES))
        runner: Any = measure.runner
        assert (runner.builds, runner.closed) == (3, 2)
    assert contest.seconds == pytest.approx({configuration: 1.2 * seconds for configuration, seconds in TIMES.items()})
