"""The benchmark of retraining from its draw to its page, with a stand-in for the measurements and for the training."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.data.problem_kinds import KINDS, kind_of
from benchmarks.prediction import retraining
from seqtune.data.dataset import Dataset
from seqtune.kernels.problem_sets.similarity import near
from seqtune.predictor.times.adaptation.retraining_report import NEW, OLD, RetrainingReport
from seqtune.predictor.times.model import TimesModel
from seqtune.results import Written
from tests.support.measuring.instant import Instant

REPORT = RetrainingReport(("toy:1",), 2, 2, 9, (), (), ("toy:1",), {NEW: (), OLD: ()}, (), (), 0, 5, False, False, 9.0)


class InstantRunner(Instant):
    """An Instant that is opened and closed as a Runner is."""

    measured = 0  # by all of them

    def __enter__(self) -> InstantRunner:
        return self

    def __exit__(self, *error: object) -> None:
        type(self).measured += self.count

    def start(self) -> None: ...

    def close(self) -> None: ...


def test_drawn_problems_are_of_all_kinds_and_near_no_known_or_tuned_one() -> None:
    known = retraining.drawn(0, len(KINDS), 1, [])[1]
    tuned, judged = retraining.drawn(3, len(KINDS), 1, known)
    assert {kind_of(problem) for problem in judged} == {*KINDS}
    assert len({*tuned, *judged}) == 3 + len(KINDS)
    assert not any(near(problem, other) for problem in (*tuned, *judged) for other in known)
    assert not any(near(problem, other) for problem in judged for other in tuned)
    assert retraining.drawn(3, len(KINDS), 1, known) == (tuned, judged)
    assert retraining.drawn(3, len(KINDS), 2, known) != (tuned, judged)


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    """The options of a run whose measurements and retraining are stand-ins."""
    def retrain(checkpoint: str, data: Path, out: Path, **options: object) -> Written:
        tuned = Dataset.read(data)
        assert len(tuned.problems()) == 2
        assert not tuned.held_out
        made = TimesModel.load(checkpoint)
        assert made.ranker is not None
        worse = {name: tuple(forests[:1]) for name, forests in made.ranker.forests.items()}
        replace(made, metrics=REPORT.to_json(), ranker=replace(made.ranker, forests=worse)).save(out)
        return Written(out, REPORT.to_json())

    monkeypatch.setattr("seqtune.tuner.measuring.runner.Runner", InstantRunner)
    monkeypatch.setattr("seqtune.predictor.times.live.Runner", InstantRunner)
    monkeypatch.setattr("seqtune.retrain", retrain, raising=False)
    monkeypatch.setattr(retraining, "known_problems", list)
    monkeypatch.setattr(InstantRunner, "measured", 0)
    return argparse.Namespace(
        device="llvm:0", checkpoint="default", tuned=2, judged=2, trials=3, minutes=None, seed=1,
        retraining_minutes=None, work=tmp_path / "work", out=tmp_path / "docs", json=tmp_path / "results.json")


def test_a_run_goes_on_where_it_stopped_and_writes_its_page(
        given: argparse.Namespace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retraining, "until_after", lambda minutes: 0.0)
    retraining.run(given)
    assert "2 problems to tune, the retraining and the contests remain" in capsys.readouterr().out
    monkeypatch.setattr(retraining, "until_after", lambda minutes: float("inf"))
    retraining.run(given)
    printed = capsys.readouterr().out
    assert "Retraining with 2 tuned problems (0 left out) takes the first proposal on 2 others from" in printed
    results = json.loads(given.json.read_text())
    assert {(row["method"], row["measured"]) for row in results["rows"]} == {
        (method, count) for method in ("before", "after", "default") for count in (0, 3, 5)}
    difference, low, high = retraining.change(results["rows"], 0)
    assert low <= difference <= high
    assert (given.out / "results" / "retraining.md").read_text() == pages.page_of(
        "retraining", given.out / "results").markdown()
    trials = InstantRunner.measured
    given.json.unlink()
    shutil.rmtree(given.out)
    retraining.run(given)
    assert InstantRunner.measured == trials, "tuned and judged problems are not measured again"
    assert json.loads(given.json.read_text())["rows"] == results["rows"]
