"""The steps of an optimised model, explained."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from seqtune.pytorch import explain
from seqtune.pytorch.optimized import Optimized
from seqtune.tuner.backends.llvm import backend as llvm
from tests.front.pytorch.test_networks import InvertedResidual
from tests.support.torch_models import random_norms

pytestmark = pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable()))


class Sorted(nn.Module):
    """A block and an operation that has no translation."""

    def __init__(self) -> None:
        super().__init__()
        self.block = InvertedResidual()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.block(x).sort(1).values
        return result


def test_every_step_has_its_kernel_its_operands_and_its_time(quick: Callable[..., Optimized]) -> None:
    x = torch.randn(1, 8, 9, 7).contiguous(memory_format=torch.channels_last)
    explanation = explain(quick(random_norms(Sorted().eval()), x), x)
    layers = [step for step in explanation.steps if step.kernel != "step"]
    assert [step.kernel.split(".")[0] for step in layers] == ["llvm"] * 3
    assert [step.fused for step in layers] == ["bias, clamp", "bias, clamp", "bias, add"]
    assert layers[0].number in layers[1].reads
    assert layers[1].number in layers[2].reads
    assert all(0 < step.seconds < 1 for step in explanation.steps)
    assert [reason for _, reason in explanation.kept] == [
        "aten.sort has no translation", "a result that is not translated"]
    assert json.loads(json.dumps(explanation.to_json()))["device"] == explanation.device
    assert str(explanation).count("llvm.") >= 3


def test_the_page_is_whole_and_loads_nothing(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    x = torch.randn(1, 8, 9, 7)
    explain(quick(random_norms(InvertedResidual().eval()), x), x).write(tmp_path / "network.html")
    page = (tmp_path / "network.html").read_text()
    assert page.count("<tr>") >= 5
    assert "<p>Nothing.</p>" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
