"""PyTorch's layers of a Transformer's encoder, which Dynamo hands over as one operation each."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from seqtune.errors import SeqtuneWarning
from seqtune.pytorch import dynamo
from seqtune.pytorch.compilation import CompiledGraph, compile_graph
from seqtune.pytorch.lowering.encoder_layers import FUSED, encoder_layer
from seqtune.tuner.backends.llvm import backend as llvm

pytestmark = [pytest.mark.skipif(llvm.unavailable() is not None, reason=str(llvm.unavailable())),
              pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def layer(activation: str, norm_first: bool) -> nn.TransformerEncoderLayer:
    """A layer whose normalisations scale and shift."""
    made = nn.TransformerEncoderLayer(24, 2, 40, activation=activation, norm_first=norm_first, batch_first=True)
    for norm in (made.norm1, made.norm2):
        nn.init.normal_(norm.weight, 1.0)
        nn.init.normal_(norm.bias)
    return made.eval()


def compiled(model: nn.Module) -> Any:
    """The model in torch.compile."""
    torch._dynamo.reset()
    return torch.compile(model, backend="seqtune", options={"verify": False, "fallback": "eager"})


@pytest.mark.parametrize(("activation", "norm_first"), [("relu", False), ("gelu", True)])
def test_the_parts_compute_what_the_operation_does(activation: str, norm_first: bool) -> None:
    made, x = layer(activation, norm_first), torch.randn(2, 7, 24)
    weights = (made.self_attn.in_proj_weight, made.self_attn.in_proj_bias, made.self_attn.out_proj.weight,
               made.self_attn.out_proj.bias)
    further = (made.norm1.weight, made.norm1.bias, made.norm2.weight, made.norm2.bias, made.linear1.weight,
               made.linear1.bias, made.linear2.weight, made.linear2.bias)
    given = (x, 24, 2, *weights, activation == "gelu", norm_first, 1e-5, *further)
    with torch.no_grad():
        torch.testing.assert_close(encoder_layer(*given), FUSED(*given), rtol=1e-4, atol=1e-5)


def test_a_compiled_encoder_is_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs: list[CompiledGraph | None] = []

    def kept(*given: Any) -> CompiledGraph | None:
        graphs.append(compile_graph(*given))
        return graphs[-1]

    monkeypatch.setattr(dynamo, "compile_graph", kept)
    model, x = nn.Sequential(nn.Linear(24, 24), layer("relu", False)).eval(), torch.randn(2, 7, 24)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x), rtol=1e-3, atol=1e-4)
    (graph,) = graphs
    assert graph is not None
    assert not graph.kept


def test_a_layer_with_a_mask_stays_pytorch_s() -> None:
    model, x, mask = layer("gelu", True), torch.randn(2, 7, 24), torch.zeros(2, 7, dtype=torch.bool)
    mask[1, 5:] = True
    with torch.no_grad(), pytest.warns(SeqtuneWarning, match="eager computes this graph"):
        found, wanted = compiled(model)(x, src_key_padding_mask=mask), model(x, src_key_padding_mask=mask)
    torch.testing.assert_close(found[:, :5], wanted[:, :5], rtol=1e-3, atol=1e-4)
