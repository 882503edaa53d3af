"""The journal's winner: which comparisons count, and which configuration answers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.api.building import build
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.task import Task
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.verdicts import store_verdict
from seqtune.tuner.measuring.verification import decide
from seqtune.tuner.remembered import Remembered, remembered_winners
from tests.support.command_line import Run

DEVICE, PROBLEM = find("llvm:0"), Problem.make("gemm", m=64, n=64, k=48)
TASK = Task.of(PROBLEM, DEVICE)
OTHERS = [each for each in islice(TASK.spaces[0], 4) if each != TASK.default][:3]
VERSIONS = {kernel.name: kernel.version for kernel in TASK.kernels}
DEFAULT, FAST, FASTER = TASK.default, *OTHERS[:2]


def store(path: Path, milliseconds: dict[Configuration, float], versions: dict[str, int] = VERSIONS,
          loaded: bool = False) -> None:
    measured = {configuration: Measurement(Status.CORRECT, (1e-3 * each,) * 18, 0.0)
                for configuration, each in milliseconds.items()}
    with Journal(path) as journal:
        store_verdict(journal, PROBLEM, DEVICE, versions, replace(decide(measured, DEFAULT, list(measured)),
                                                                  loaded=loaded), 10.0)


def winner(path: Path) -> Remembered | None:
    return remembered_winners([PROBLEM], DEVICE, path).get(PROBLEM)


def test_the_winner_leads_its_default_by_most(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    assert winner(path) is None
    assert not path.exists()
    store(path, {DEFAULT: 3.0, FAST: 2.0})
    store(path, {DEFAULT: 3.0, FASTER: 1.0})
    store(path, {DEFAULT: 3.0, OTHERS[2]: 3.5})
    found = winner(path)
    assert found is not None
    assert found.configuration == FASTER
    assert found.verdict.speedup == pytest.approx(3.0)
    assert found.verdict.significant
    assert found.origin.startswith("verified on 20")


def test_a_newer_comparison_takes_a_victory_back(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    store(path, {DEFAULT: 3.0, FAST: 2.0})
    store(path, {DEFAULT: 3.0, FASTER: 1.0})
    store(path, {DEFAULT: 3.0, FASTER: 3.0})
    found = winner(path)
    assert found is not None
    assert found.configuration == FAST


def test_other_versions_machines_and_single_trials_make_no_winner(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    store(path, {DEFAULT: 3.0, FAST: 2.0}, dict.fromkeys(VERSIONS, 99))
    fast = Record(PROBLEM, DEVICE.key, VERSIONS[FAST.kernel], FAST, DEVICE.toolchain, Measurement(
        Status.CORRECT, (1e-6,) * 18, 0.0), 1.0, "random", "host", DEVICE.fingerprint)
    with Journal(path) as journal:
        journal.add(fast)
        journal.add(replace(fast, run="verify", session="elsewhere"))
        journal.add(replace(fast, run="final"))
    assert winner(path) is None


@pytest.mark.usefixtures("few_rounds")
def test_tune_predict_and_build_name_the_same_winner(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    words = [f"{name}={PROBLEM[name]}" for name in ("m", "n", "k")]

    def tuned(trials: str) -> dict[str, Any]:
        report = run("tune", "gemm", *words, "--trials", trials, "--strategy", "random", "--journal", path)
        (result,) = report["results"]
        best = result["best"]
        predicted = run("predict", "gemm", *words, "--checkpoint", checkpoint, "--journal", path)["candidates"][0]
        assert (predicted["kernel"], predicted["configuration"]) == (best["kernel"], best["configuration"])
        kernel = build(PROBLEM, DEVICE, journal=path).chosen
        assert (kernel.kernel.name, dict(kernel.configuration.settings)) == (best["kernel"], best["configuration"])
        return dict(result)

    assert "origin" not in tuned("4")
    assert tuned("4")["measured"] == 0
    tuned("6")
    store(path, {DEFAULT: 3000.0, FAST: 1.0})  # a later comparison that decides
    result = tuned("6")
    assert result["best"]["configuration"] == dict(FAST.settings)
    assert result["default"]["seconds"] == pytest.approx(3.0)
    assert result["origin"].startswith("verified on 20")
    assert result["confidence"] is None


def test_predict_names_the_winner_first(run: Run, checkpoint: Path, tmp_path: Path,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "journal.sqlite"
    store(path, {DEFAULT: 3.0, FAST: 2.0})
    words = ["predict", "gemm", "m=64", "n=64", "k=48", "--checkpoint", str(checkpoint), "--top", "2", "--journal",
             str(path)]
    found = run(*words)
    assert found["winner"] == found["candidates"][0]
    assert len(found["candidates"]) == 2
    assert found["winner"]["configuration"] == dict(FAST.settings)
    assert found["winner"]["typical_seconds"] == pytest.approx(2e-3)
    assert found["remembered"]["speedup"] == pytest.approx(1.5)
    assert found["remembered"]["run"] == "verify"
    assert "remembered" not in run(*words, "--no-evidence")
    assert main(words) == 0
    assert f"winner: {FAST.kernel} {FAST.brief()}, 2 ms, 1.50x the default's speed (verified on 20" in (
        capsys.readouterr().out.replace("\n", " "))
    problems = tmp_path / "problems.txt"
    problems.write_text("gemm m=64 n=64 k=48\n")
    assert main(["predict", "--problems", str(problems), "--checkpoint", str(checkpoint), "--journal", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["winner"]["configuration"] == dict(FAST.settings)
