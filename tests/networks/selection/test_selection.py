"""The kernels that a model gets; a layer that cannot be tuned is reported."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import CheckpointError, KernelError, MisuseError, SeqtuneError, SeqtuneWarning
from seqtune.integrations.pytorch.hook.optimization import Optimizer, optimize
from seqtune.integrations.pytorch.hook.tools import Tools
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.networks.optimized import Optimized
from seqtune.networks.peer_comparison import GraphVerdict, PeerComparison
from seqtune.networks.peer_graph import PeerGraph
from seqtune.networks.selection.selection import LayerPredictor
from seqtune.predictor.answering import Answering, answering
from seqtune.pytorch import explain
from seqtune.tuner.backends.discovery import find
from tests.support.llvm import needs_llvm
from tests.support.torch_models import norm_net, same

pytestmark = needs_llvm


def test_a_layer_that_no_kernel_solves_stays_pytorch_s(checkpoint: Path, tmp_path: Path) -> None:
    def answered(problem: Problem, device: Device, name: str | Path | None) -> Answering:
        if problem.type == "gemm":
            raise KernelError("no kernel solves products here")
        return answering(problem, device, name)

    model, x, said = norm_net(), torch.randn(1, 3, 20, 20), list[str]()
    tools = Tools(partial(LayerPredictor, answering=answered))
    fast = Optimizer("llvm:1", False, checkpoint=checkpoint, journal=tmp_path / "j.sqlite", progress=said.append,
                     tools=tools).optimize(model, x)
    left = [choice for choice in fast.choices if choice.configuration is None]
    assert [choice.problem.type for choice in left] == ["gemm"]
    assert "PyTorch's operation stays: no kernel solves products here" in said
    assert "PyTorch computes linear: no kernel solves it" in str(explain(fast, x))
    fast.save(tmp_path / "choice.json")
    for left_out in (fast, optimize(model, x, device="llvm:1", saved=tmp_path / "choice.json")):
        assert same(left_out, model, x)


@pytest.mark.parametrize(("model", "example", "says"), [
    (nn.Conv2d(3, 3, 1), torch.randn(1, 3, 4, 4), "training mode"),
    (nn.Conv2d(3, 3, 1).half().eval(), torch.randn(1, 3, 4, 4), "torch.float16"),
    (nn.Conv2d(3, 3, 1).double().eval(), torch.randn(1, 3, 4, 4), "torch.float64"),
    (nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4).double(), "example input is of torch.float64"),
    (nn.Conv2d(3, 3, 1, device="meta").eval(), torch.randn(1, 3, 4, 4), "on meta"),
    (nn.ReLU().eval(), torch.randn(3), "no layer of this ReLU"),
    (nn.Conv2d(3, 3, 1).eval(), "an image", "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), (), "must be a tensor"),
    (nn.Conv2d(3, 3, 1).eval(), 5, "must be a tensor"),
    (torch.relu, torch.randn(3), "not a torch.nn.Module"),
])
def test_what_cannot_be_optimised_is_refused_in_one_line(model: Any, example: Any, says: str) -> None:
    with pytest.raises(MisuseError) as caught:
        optimize(model, example)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_would_part_a_model_from_its_kernels_is_refused(quick: Callable[..., Optimized]) -> None:
    fast = quick(nn.Conv2d(3, 3, 1).eval(), torch.randn(1, 3, 4, 4))
    for deed in (fast.train, fast.double, lambda: copy.deepcopy(fast), lambda: pickle.dumps(fast),
                 lambda: optimize(fast, torch.randn(1, 3, 4, 4))):
        with pytest.raises(MisuseError):
            deed()
    assert not fast.eval().training


def test_changed_weights_are_never_answered_with_the_old_ones(quick: Callable[..., Optimized]) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    example = torch.randn(1, 3, 8, 8)
    fast = quick(model, example)
    with pytest.raises(MisuseError, match="optimise it again"):
        fast.load_state_dict(fast.state_dict())
    for changed, expected in ((dict(fast.named_parameters()), dict(model.named_parameters())),
                              (dict(fast.named_buffers()), dict(model.named_buffers()))):
        name = next(iter(expected))
        with torch.no_grad():
            next(weight for key, weight in changed.items() if key.endswith(name)).mul_(1.5)
            expected[name].mul_(1.5)
            with pytest.warns(SeqtuneWarning, match="weights of an optimised model were changed"):
                assert torch.allclose(fast(example), model(example), atol=1e-5)


@pytest.mark.parametrize(("example", "says"), [
    (torch.randn(1, 3, 4, 4), "results differ by"),
    (torch.full((1, 3, 4, 4), math.nan), "take an example with finite results")])
def test_a_wrong_result_is_never_returned(example: torch.Tensor, says: str, checkpoint: Path) -> None:
    zeros = PeerGraph("inductor", lambda x: (torch.zeros(1, 3, 4, 4),))
    tools = Tools(comparison=partial(
        PeerComparison, known=GraphVerdict("inductor", 1.0, 0.5, True), inductor=lambda module, examples: zeros,
        share=lambda: 1.0))
    with pytest.raises(SeqtuneError, match=says):
        Optimizer("llvm:1", checkpoint=checkpoint, tools=tools).optimize(nn.Conv2d(3, 3, 1).eval(), example)


def test_attention_that_a_checkpoint_does_not_know_is_predicted_without_it(checkpoint: Path) -> None:
    asked: list[tuple[str, object]] = []

    def answered(problem: Problem, device: Device, name: str | Path | None = None) -> Answering:
        asked.append((problem.type, name))
        if problem.type == "attention" and name == checkpoint:
            raise CheckpointError("attention is not in it")
        return answering(problem, device, name)

    said: list[str] = []
    predictor = LayerPredictor(checkpoint, None, said.append, answered)
    problems = [*(Problem.make("gemm", m=5, n=size, k=24, trans_b="yes") for size in (24, 72)),
                Problem.make("attention", n=1, heads=3, q_len=5, kv_len=5, head_dim=8, value_dim=8)]
    choices = predictor.predict(problems, find("llvm:1"))
    assert [choice.problem for choice in choices] == problems
    assert all(choice.configuration is not None for choice in choices)
    assert [name for kind, name in asked if kind == "attention"] == [checkpoint, None]
    assert [line for line in said if "attention is not in it" in line]
    assert "predicting 2 layers: gemm" in said, "the linear layers are predicted together"
    assert len(asked) == len(problems) + 1, "who answers a layer is asked once"
