"""Verified predictions on the command line: what was measured is shown and remembered."""

from __future__ import annotations

import json
import re
from itertools import islice
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.api.results import Answer, Prediction
from seqtune.cli.tables.predicting import prediction as table
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.backends.discovery import find
from seqtune.tuner.measuring.verdicts import store_verdict
from seqtune.tuner.measuring.verification import decide
from tests.support.command_line import Run

pytestmark = pytest.mark.usefixtures("few_rounds")

CONV = ["conv2d", "n=1", "c=16", "h=14", "w=14", "k=32", "r=3", "s=3", "pad=1"]


def test_a_verified_prediction_says_what_was_measured(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    journal = str(tmp_path / "journal.sqlite")
    arguments = ["predict", *CONV, "--device", "llvm:0", "--top", "3", "--verify", "--seconds", "60",
                 "--checkpoint", str(checkpoint), "--journal", journal]
    found = run(*arguments)
    for one in [*found["candidates"], found["default"], found["winner"]]:
        assert one["status"] == "correct"
        assert one["seconds"] > 0
        assert one["spread"] >= 0
        assert 0 <= one["error"] < 1e-4
    assert found["winner"] in [*found["candidates"], found["default"]]
    assert found["speedup"] == pytest.approx(found["default"]["typical_seconds"] / found["winner"]["typical_seconds"])
    assert found["significant"] == (found["winner"]["configuration"] != found["default"]["configuration"])
    assert found["cached"] is False
    with Journal(journal) as kept:
        measured = {record.configuration for record in kept.records(run="verify")}
    assert len(measured) == len({json.dumps(one["configuration"]) for one in [*found["candidates"], found["default"]]})


def test_the_table_of_a_verification_shows_the_times_that_decide(capsys: pytest.CaptureFixture[str]) -> None:
    device, problem = find("llvm:0"), Problem.make("gemm", m=64, n=64, k=64)
    default, winner, second, hopeless = islice(SearchSpace(kernel("llvm.gemm"), problem, device), 4)
    samples = {default: (30e-3,) * 18, winner: (9e-3,) * 18, second: (1e-3, *(10e-3,) * 17), hopeless: (20e-3,)}
    verdict = decide({configuration: Measurement(Status.CORRECT, taken) for configuration, taken in samples.items()},
                     default, [default, winner, second])
    assert (verdict.winner, verdict.second, verdict.leads_second) == (winner, second, False), "the least time lies"
    proposals = {configuration: Answer.of(configuration, None, measurement, verdict.typical.get(configuration))
                 for configuration, measurement in verdict.measurements.items()}
    answer = Prediction(problem, device, tuple(proposals[each] for each in (second, hopeless, winner)),
                        proposals[default], proposals[winner], True, verdict.speedup, verdict.significant,
                        second=proposals[second], leads_second=verdict.leads_second)
    table(answer)
    shown = capsys.readouterr().out
    assert {"9 ms", "10 ms", "20 ms", "30 ms"} <= set(re.findall(r"[0-9]+ ms", shown))
    assert "correct, alone" in shown
    assert ", 9 ms, 3.33x the default's speed, 1.11x the second's (not significant)\n" in shown
    assert "time: median of the rounds; alone: the least time, too long for the rounds" in shown
    assert answer.to_json()["leads_second"] is False
    assert json.loads(json.dumps(answer.to_json()))["winner"]["typical_seconds"] == pytest.approx(9e-3)


def test_a_verified_prediction_is_remembered(run: Run, checkpoint: Path, tmp_path: Path) -> None:
    arguments = ["predict", *CONV, "--device", "llvm:0", "--top", "1", "--verify", "--seconds", "60",
                 "--checkpoint", str(checkpoint), "--journal", str(tmp_path / "journal.sqlite")]
    prediction = run(*arguments)
    assert prediction["cached"] is False
    assert run(*arguments) == {**prediction, "cached": True, "elapsed_seconds": None}
    assert run(*arguments, "--no-cache")["cached"] is False


def test_what_happened_is_printed_for_a_verification_and_for_a_budget_that_is_too_small(
        checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["predict", *CONV, "--top", "1", "--verify", "--checkpoint", str(checkpoint), "--journal",
                 str(tmp_path / "journal.sqlite"), "--seconds"]
    assert main([*arguments, "0.01"]) == 0
    assert re.search(r"^not verified: the fewest measurements take (more than|about) [0-9.]+ s here, the budget is "
                     r"0\.01 s \(--seconds\)$", capsys.readouterr().out, re.MULTILINE)
    assert main([*arguments, "60"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^verified in [0-9.]+ m?s of 60 s \(--seconds\)$", shown, re.MULTILINE)
    assert "not verified" not in shown


def test_fewer_candidates_of_a_remembered_verification_need_no_measurement(
        run: Run, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    plain = ["predict", "gemm", "m=64", "n=64", "k=64", "--checkpoint", checkpoint]
    prediction = run(*plain, "--top", "3")
    device, problem = find("llvm:0"), Problem.make("gemm", m=64, n=64, k=64)
    family = kernel("llvm.gemm")
    default, *candidates = (Configuration.of(family.name, proposal["configuration"])
                            for proposal in [prediction["default"], *prediction["candidates"]])
    measured = {configuration: Measurement(Status.CORRECT, (1e-3,) * 18, 0.0)
                for configuration in [default, *candidates]}
    with Journal(path) as journal:
        store_verdict(journal, problem, device, {family.name: family.version},
                      decide(measured, default, list(measured)), 60.0)
    common = [*plain, "--verify", "--seconds", "60", "--journal", str(path)]
    assert run(*common, "--top", "3")["cached"] is True
    assert run(*common, "--top", "2")["cached"] is True
    assert run(*common, "--top", "2", "--seconds", "90")["cached"] is False, "a longer look was asked for"
    assert run(*common, "--top", "4")["cached"] is False


def test_a_verification_of_another_kernel_version_or_toolchain_is_not_used(
        run: Run, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    common = ["predict", "gemm", "m=64", "n=64", "k=32", "--top", "2", "--checkpoint", checkpoint]
    plain = run(*common)
    device, problem = find("llvm:0"), Problem.make("gemm", m=64, n=64, k=32)
    space = SearchSpace(kernel("llvm.gemm"), problem, device)
    wanted = {json.dumps(one["configuration"]) for one in [*plain["candidates"], plain["default"]]}
    verify = [*common, "--verify", "--seconds", "60", "--journal", str(path)]
    with Journal(path) as journal:
        for version, toolchain in ((99, device.toolchain), (1, "another compiler")):
            for one in space:
                if json.dumps(dict(one.settings)) in wanted:
                    journal.add(Record(problem, device.key, version, one, toolchain,
                                       Measurement(Status.CORRECT, (1e-9,) * 15, 0.0), 1.0, "verify"))
    assert run(*verify)["cached"] is False
