"""The report on a network's verification: as text, as JSON, in `explain` and in saved choices."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import FormatError
from seqtune.integrations.pytorch.hook.optimization import Optimizer, optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.kernels.devices.device import Device
from seqtune.kernels.registry import kernels_for
from seqtune.kernels.space import SearchSpace
from seqtune.networks.compiled import Compiled
from seqtune.networks.compiler import CompiledGraph
from seqtune.networks.optimized import Optimized
from seqtune.networks.selection.choices import Choice
from seqtune.networks.selection.layer_predictor import LayerPredictor
from seqtune.networks.selection.reports import NetworkVerification
from seqtune.networks.verification.peer_comparison import PeerComparison
from seqtune.networks.verification.speed_ratio import SpeedRatio
from seqtune.networks.verification.verifier import NetworkVerifier, VerifierTools
from seqtune.pytorch import explain
from tests.support.llvm import needs_llvm
from tests.support.networks.fakes import times_of
from tests.support.torch_models import norm_net, same

REPORT = NetworkVerification(60.0, 41.2, 21, 9, 8, 1.031, 0.008)


def test_the_text_says_what_was_done_and_what_it_gained() -> None:
    assert str(REPORT) == ("9 of 21 layers verified (8 have nothing to gain, 4 had no time left) in 41 of 60 s; the "
                           "verified network has 1.031 times the speed of the predicted one (spread 0.8%), and is kept")
    assert "so the predicted one is kept" in str(replace(REPORT, ratio=0.99))
    assert str(NetworkVerification(60.0, 5.0, 2, 2, 0)) == (
        "2 of 2 layers verified in 5 of 60 s; the predicted network computes")
    assert str(replace(REPORT, note="no time")).endswith("; no time")
    assert str(replace(REPORT, note="no time", loaded=True)).endswith(
        "; no time; other work had much of the machine meanwhile")


@pytest.mark.parametrize("report", [REPORT, replace(REPORT, ratio=None, note="no time"), replace(REPORT, loaded=True)])
def test_a_report_comes_back_from_json(report: NetworkVerification) -> None:
    assert NetworkVerification.of_json(json.loads(json.dumps(asdict(report)))) == report


@pytest.mark.parametrize("wrong", [
    None, 5, [], {}, {**asdict(REPORT), "ratio": "fast"}, {**asdict(REPORT), "used": -1.0},
    {**asdict(REPORT), "budget": float("nan")}, {**asdict(REPORT), "layers": None}])
def test_what_is_no_report_is_refused_in_one_line(wrong: Any) -> None:
    with pytest.raises(FormatError, match="is no report on the verification of a network") as caught:
        NetworkVerification.of_json(wrong)
    assert "\n" not in str(caught.value)


@needs_llvm
def test_a_report_is_explained_and_saved(checkpoint: Path, tmp_path: Path) -> None:
    class Reporting(NetworkVerifier):
        def verify(self, compiler: object, compiled: CompiledGraph, *_: object) -> CompiledGraph:
            return replace(compiled, verification=REPORT)

    model, x = nn.Linear(8, 4).eval(), torch.randn(3, 8)
    fast = Optimizer("llvm:1", checkpoint=checkpoint, compare="eager", journal=tmp_path / "j.sqlite",
                     tools=Tools(verifier=Reporting)).optimize(model, x)
    saved = tmp_path / "choice.json"
    fast.save(saved)
    again = optimize(model, x, device="llvm:1", saved=saved)
    assert verification_of(again) == verification_of(fast) == REPORT
    assert f"the whole network: {REPORT}" in str(explain(again, x))
    content = json.loads(saved.read_text())
    saved.write_text(json.dumps({**content, "verifications": ["quick"]}))
    with pytest.raises(FormatError, match="is no report"):
        optimize(model, x, device="llvm:1", saved=saved)
    del content["verifications"]
    saved.write_text(json.dumps(content))
    assert verification_of(optimize(model, x, device="llvm:1", saved=saved)) is None


@needs_llvm
@pytest.mark.parametrize("ratio", [1.5, 0.5])
def test_the_faster_network_computes(ratio: float, checkpoint: Path, tmp_path: Path) -> None:
    """The winners are other configurations than the proposals; both networks are built and compute the same."""
    class Differing(LayerPredictor):
        __slots__ = ()

        def verify(self, proposal: Choice, device: Device, seconds: float) -> Choice:
            spaces = [SearchSpace(kernel, proposal.problem, device) for kernel in kernels_for(proposal.problem, device)]
            other = next(space[row] for space in spaces for row in range(min(2, len(space)))
                         if space[row] != proposal.configuration)
            return replace(proposal, configuration=other, verified=True)

    def measure(predicted: nn.Module, verified: nn.Module, examples: Any, *_: object) -> SpeedRatio:
        with torch.no_grad():
            torch.testing.assert_close(predicted(*examples), verified(*examples), rtol=1e-3, atol=1e-4)
        return SpeedRatio(ratio, 0.0)

    model, x = norm_net(), torch.randn(1, 3, 20, 20)
    options: dict[str, Any] = {"device": "llvm:1", "checkpoint": checkpoint, "journal": tmp_path / "j.sqlite"}
    predicted = optimize(model, x, verify=False, **options)
    tools = Tools(Differing, partial(NetworkVerifier, tools=VerifierTools(measure_ratio=measure, least_gain=0.0)))
    fast = Optimizer(compare="eager", budget=3600.0, tools=tools, **options).optimize(model, x)
    assert same(fast, model, x)
    equal = [one.configuration == other.configuration
             for one, other in zip(fast.choices, predicted.choices, strict=True)]
    assert all(equal) if ratio < 1 else not any(equal)
    report = verification_of(fast)
    assert report is not None
    assert (report.verified, report.ratio, report.keeps_predicted) == (len(equal), ratio, ratio < 1)


class InParts(nn.Module):
    """A model that is optimised in parts, because it cannot be exported: two linear layers and a branch."""

    def __init__(self, tied: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        if tied:
            self.second.weight, self.second.bias = self.first.weight, self.first.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.first(x)
        z: torch.Tensor = self.second(y if y.sum().item() < 1e30 else -y)
        return z


@needs_llvm
@pytest.mark.parametrize(("tied", "budgets"), [(False, [30.0, 60.0]), (True, [60.0, 60.0])])
def test_the_parts_of_a_network_share_its_budget_by_their_parameters(
        tied: bool, budgets: list[float], checkpoint: Path, tmp_path: Path) -> None:
    """Nothing is used by the first part, so the second one has all. Parameters in common count for both."""
    seconds: list[float] = []

    class Noting(NetworkVerifier):
        def verify(self, compiler: object, compiled: CompiledGraph, *_: object) -> CompiledGraph:
            seconds.append(self.deadline.seconds)
            return compiled

    tools = Tools(verifier=Noting, comparison=partial(PeerComparison, timer=times_of({"theirs": [1.0] * 11})),
                  clock=lambda: 0.0)
    Optimizer("llvm:1", checkpoint=checkpoint, budget=60.0, compare="eager", journal=tmp_path / "j.sqlite",
              tools=tools).optimize(InParts(tied).eval(), torch.randn(2, 8))
    assert seconds == budgets


@needs_llvm
def test_an_unverified_network_has_no_report(quick: Callable[..., Optimized]) -> None:
    assert verification_of(quick(nn.Linear(8, 4).eval(), torch.randn(3, 8))) is None


def verification_of(fast: Optimized) -> NetworkVerification | None:
    """The report on the whole model."""
    assert isinstance(fast.model, Compiled)
    return fast.model.verification
