"""Tests of the contest of one network: contestants that are missing, fail or are wrong, and the counted operations."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.common.finished import Finished, checksum
from benchmarks.networks import program
from benchmarks.networks.case import Case, Run
from benchmarks.networks.contest import Assignment, ContestOutcome, compare_all, error_of
from benchmarks.networks.ours import OurOptions
from benchmarks.networks.peers import NetworkPeer, eager
from seqtune.errors import FormatError


def test_a_contest_leaves_out_what_fails_or_is_wrong_and_times_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    def fake(case: Case, options: OurOptions, verify: bool) -> Run:
        model, inputs = case.copied(), list(case.inputs)
        return lambda: [model(*inputs) + (0.0 if verify else 1.0)]

    def broken(case: Case) -> Any:
        raise RuntimeError("no compiler")

    outcome = compare_all(Assignment("ShuffleNet-V2", "fp32", 1, rounds=2),
                           (NetworkPeer("eager", eager), NetworkPeer("compile", broken)), fake)
    assert {name: len(samples) for name, samples in outcome.samples.items()} == {"eager": 2, "seqtune": 2}
    assert outcome.left_out["compile"] == "RuntimeError: no compiler"
    assert "its result is wrong" in outcome.left_out["unverified"]
    assert outcome.errors["seqtune"] < 1e-3
    assert outcome.operations["aten::cat"] == 16
    assert "compile is left out" in capsys.readouterr().err


def test_errors_are_relative_and_infinite_where_results_cannot_be_compared() -> None:
    reference = [torch.tensor([1.0, -4.0]), torch.tensor([2.0])]
    assert error_of([torch.tensor([1.0, -3.0]), torch.tensor([2.0])], reference) == 0.25
    assert error_of([torch.tensor([1.0, float("nan")]), torch.tensor([2.0])], reference) == float("inf")
    assert error_of([torch.tensor([1.0]), torch.tensor([2.0])], reference) == float("inf")
    assert error_of([torch.tensor([1.0, -4.0])], reference) == float("inf")


def test_a_kept_outcome_is_read_and_belongs_to_its_options_and_machine(tmp_path: Path) -> None:
    assignment, finished = Assignment("VGG-16", "fp32", 2), Finished(tmp_path)
    failed = program.outcome_of(assignment, finished, {"cpu": "A"}, python="/bin/false")
    assert set(failed.left_out) >= {"eager", "seqtune", "unverified"}
    key = checksum([asdict(assignment), {"cpu": "A"}])
    path = finished.path(assignment.name, key)
    path.write_text(json.dumps(asdict(ContestOutcome("VGG-16", "fp32", 2, {"eager": [1.0]}))))
    for day in ("today", "tomorrow"):
        assert program.outcome_of(assignment, finished, {"cpu": "A", "date": day}).samples == {"eager": [1.0]}
    for other, cpu in ((assignment, "B"), (replace(assignment, rounds=3), "A")):
        assert program.outcome_of(other, finished, {"cpu": cpu}, python="/bin/false").samples == {}
    path.write_text("{}")
    with pytest.raises(FormatError, match="is no outcome of a contest"):
        program.outcome_of(assignment, finished, {"cpu": "A"})
