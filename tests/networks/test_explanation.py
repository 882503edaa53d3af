"""The steps of an optimised model, explained."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import MisuseError, UnavailableError
from seqtune.integrations.pytorch.hook import explain
from seqtune.networks.optimized import Optimized
from seqtune.tuner.load import Load
from tests.networks.test_networks import InvertedResidual
from tests.support.llvm import needs_llvm
from tests.support.torch_models import Branching, random_norms

pytestmark = needs_llvm


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
    assert str(explanation).endswith(f" ms on {explanation.device}; what PyTorch computes has no time here")


def test_steps_that_were_timed_on_a_busy_machine_say_so_in_the_table_and_on_the_page(
        quick: Callable[..., Optimized], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    x = torch.randn(2, 8)
    fast = quick(nn.Linear(8, 4).eval(), x)
    loads = iter((Load(0.02), Load(0.93)))
    monkeypatch.setattr("seqtune.networks.explanation.LoadMeter",
                        lambda: SimpleNamespace(well_known_load=lambda: next(loads)))
    assert "too long" not in str(explain(fast, x))
    busy = explain(fast, x)
    doubt = ("other processes had 93% of the CPUs while these steps were timed: their times may be far too long; "
             "explain again when the machine is quiet")
    assert str(busy).splitlines()[-2] == doubt
    assert busy.to_json()["load"] == {"others": 0.93, "stolen": 0.0}
    busy.write(tmp_path / "network.html")
    assert f"<p>{doubt}.</p>" in (tmp_path / "network.html").read_text()


def test_a_missing_openvino_and_a_model_in_parts_are_one_line(
        quick: Callable[..., Optimized], monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(2, 8)
    fast = quick(nn.Linear(8, 4).eval(), x)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(UnavailableError, match=r"^OpenVINO is not installed: pip install openvino$"):
        explain(fast, x, openvino=True)
    image = torch.randn(1, 3, 20, 20)
    with pytest.raises(MisuseError, match="optimised in parts"):
        explain(quick(Branching().eval(), image), image, openvino=True)


def test_the_page_is_whole_and_loads_nothing(quick: Callable[..., Optimized], tmp_path: Path) -> None:
    x = torch.randn(1, 8, 9, 7)
    explain(quick(random_norms(InvertedResidual().eval()), x), x).write(tmp_path / "network.html")
    page = (tmp_path / "network.html").read_text()
    assert page.count("<tr>") >= 5
    assert "<p>Nothing.</p>" in page
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


@pytest.mark.parametrize("operands", [(3,), (None,), ("x",), ({"x": [torch.ones(5, 8)]},), (torch.ones(5, 8), 2.0)])
def test_other_operands_than_tensors_are_refused(quick: Callable[..., Optimized], operands: tuple[Any, ...]) -> None:
    fast = quick(nn.Linear(8, 4).eval(), torch.randn(5, 8))
    with pytest.raises(MisuseError, match="explain runs the model on tensors"):
        explain(fast, *operands)


@pytest.mark.parametrize("operands", [(), (torch.ones(5, 9),), (torch.ones(5, 8), torch.ones(3))])
def test_operands_that_the_model_does_not_take_are_refused_in_one_line(quick: Callable[..., Optimized],
                                                                      operands: tuple[Any, ...]) -> None:
    fast = quick(nn.Linear(8, 4).eval(), torch.randn(5, 8))
    with pytest.raises(MisuseError, match="the model cannot be called with these operands") as caught:
        explain(fast, *operands)
    assert "\n" not in str(caught.value)


def test_openvino_s_nodes_stand_beside_the_steps_whose_operations_they_compute(
        quick: Callable[..., Optimized], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def node(name: str, covers: str) -> Any:
        return SimpleNamespace(get_friendly_name=lambda: name, get_rt_info=lambda: {
            "originalLayersNames": SimpleNamespace(value=covers)})

    nodes = [node("first", "first,hardtanh/aten.hardtanh.default/Clamp"), node("Reorder", "x_abcd_acdb")]
    profile = [SimpleNamespace(node_name=name, node_type="Convolution", exec_type="brgconv_f32",
                               real_time=timedelta(microseconds=microseconds))
               for name, microseconds in (("first", 1), ("Reorder", 2))]
    request = SimpleNamespace(infer=lambda inputs: None, get_profiling_info=lambda: profile)
    compiled = SimpleNamespace(create_infer_request=lambda: request,
                               get_runtime_model=lambda: SimpleNamespace(get_ordered_ops=lambda: nodes))
    core = SimpleNamespace(compile_model=lambda program, device, settings: compiled)
    monkeypatch.setitem(sys.modules, "openvino",
                        SimpleNamespace(convert_model=lambda program: program, Core=lambda: core))
    x = torch.randn(1, 8, 9, 7)
    explanation = explain(quick(random_norms(InvertedResidual().eval()), x), x, openvino=True)
    layers = [step for step in explanation.steps if step.kernel != "step"]
    assert [step.openvino for step in layers] == [(("Convolution brgconv_f32", 1e-6),), (), ()]
    assert explanation.openvino_rest == (("Reorder", 2e-6),)
    assert "| OpenVINO: no node of its own" in str(explanation)
    explanation.write(tmp_path / "network.html")
    assert "<td>Convolution brgconv_f32 1 us</td>" in (tmp_path / "network.html").read_text()


def test_a_plain_model_and_other_shapes_are_one_line(quick: Callable[..., Optimized]) -> None:
    plain: Any = nn.Linear(8, 4).eval()
    with pytest.raises(MisuseError, match="a Linear is not an optimised model"):
        explain(plain, torch.randn(2, 8))
    with pytest.raises(MisuseError, match="of the shapes that it was optimised for"):
        explain(quick(plain, torch.randn(2, 8)), torch.randn(3, 8))
