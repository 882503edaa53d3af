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
from benchmarks.networks.ours import OurOptions, operations_of
from benchmarks.networks.peers import NetworkPeer, eager
from seqtune.errors import FormatError, UnavailableError
from seqtune.kernels.devices.device import Device
from tests.support.programs.programs import Programs


def case_of(model: torch.nn.Module, x: torch.Tensor, folder: Path, dtype: str = "fp32") -> Case:
    """Make a case on one thread."""
    device = Device("llvm:avx2:1", "llvm", "x86", "avx2", "AMD EPYC")
    return Case(model.eval(), [x], dtype, device, folder, True)


def test_a_missing_package_is_named_with_the_way_to_install_it(tmp_path: Path) -> None:
    peer = NetworkPeer("absent", eager, ("no_such_package",))
    with pytest.raises(UnavailableError, match=r"no_such_package is not installed: pip install 'seqtune\[networks\]'"):
        peer.prepared(case_of(torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8), tmp_path))


def test_whatever_a_library_raises_becomes_one_line(tmp_path: Path) -> None:
    def fail(case: Case) -> Any:
        raise ZeroDivisionError("two\nlines")

    with pytest.raises(UnavailableError, match="ZeroDivisionError: two lines"):
        NetworkPeer("failing", fail).prepared(case_of(torch.nn.ReLU(), torch.ones(1), tmp_path))


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


def test_only_outermost_operations_that_compute_are_counted() -> None:
    layer, x = torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8)
    with torch.no_grad():
        counts = operations_of(lambda: [layer(x).view(4, -1).t().relu() + torch.empty(4)])
    assert counts == {"aten::conv2d": 1, "aten::relu": 1, "aten::add": 1}


def test_errors_are_relative_and_infinite_where_results_cannot_be_compared() -> None:
    reference = [torch.tensor([1.0, -4.0]), torch.tensor([2.0])]
    assert error_of([torch.tensor([1.0, -3.0]), torch.tensor([2.0])], reference) == 0.25
    assert error_of([torch.tensor([1.0, float("nan")]), torch.tensor([2.0])], reference) == float("inf")
    assert error_of([torch.tensor([1.0]), torch.tensor([2.0])], reference) == float("inf")
    assert error_of([torch.tensor([1.0, -4.0])], reference) == float("inf")


def test_half_precision_converts_the_images_and_no_token(tmp_path: Path) -> None:
    case = case_of(torch.nn.Conv2d(3, 4, 3), torch.ones(1, 3, 8, 8), tmp_path, "bf16")
    assert case.converted()[0].dtype == torch.bfloat16
    assert next(case.copied().parameters()).dtype == torch.bfloat16
    assert next(case.model.parameters()).dtype == torch.float32
    tokens = case_of(torch.nn.Embedding(9, 4), torch.ones(1, 3, dtype=torch.int64), tmp_path, "bf16")
    assert tokens.converted()[0].dtype == torch.int64


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


def test_a_contest_that_ends_badly_leaves_out_all_by_name_and_keeps_nothing(tmp_path: Path) -> None:
    assignment = Assignment("VGG-16", "fp32", 2, peers=("eager",))
    outcome = program.outcome_of(assignment, Finished(tmp_path), {"cpu": "A"}, python="/bin/false")
    assert set(outcome.left_out) == {"eager", "seqtune", "unverified"}
    assert "failed with status 1" in outcome.left_out["eager"]
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_network_is_one_line(programs: Programs) -> None:
    done = programs.run("benchmarks", "networks", "--models", "LeNet")
    assert done.returncode == 2
    assert "'LeNet' is not one of VGG-16" in done.stderr.splitlines()[-1]
