"""PyTorch's layers of a Transformer's encoder, which Dynamo hands over as one operation each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import fx, nn

from seqtune.errors import MisuseError
from seqtune.integrations.pytorch.hook.dynamo import BackendOptions, ShapedPrograms
from seqtune.networks.capture.encoder_layers import FUSED, encoder_layer
from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def layer(activation: str, norm_first: bool) -> nn.TransformerEncoderLayer:
    """A layer whose normalisations scale and shift."""
    module = nn.TransformerEncoderLayer(24, 2, 40, activation=activation, norm_first=norm_first, batch_first=True)
    for norm in (module.norm1, module.norm2):
        nn.init.normal_(norm.weight, 1.0)
        nn.init.normal_(norm.bias)
    return module.eval()


@pytest.mark.parametrize(("activation", "norm_first"), [("relu", False), ("gelu", True)])
def test_the_parts_compute_what_the_operation_does(activation: str, norm_first: bool) -> None:
    module, x = layer(activation, norm_first), torch.randn(2, 7, 24)
    weights = (module.self_attn.in_proj_weight, module.self_attn.in_proj_bias, module.self_attn.out_proj.weight,
               module.self_attn.out_proj.bias)
    further = (module.norm1.weight, module.norm1.bias, module.norm2.weight, module.norm2.bias, module.linear1.weight,
               module.linear1.bias, module.linear2.weight, module.linear2.bias)
    given = (x, 24, 2, *weights, activation == "gelu", norm_first, 1e-5, *further)
    with torch.no_grad():
        torch.testing.assert_close(encoder_layer(*given), FUSED(*given), rtol=1e-4, atol=1e-5)


def test_a_compiled_encoder_is_one_program() -> None:
    graphs: list[ShapedPrograms] = []

    def noting(module: fx.GraphModule, inputs: Sequence[Any]) -> ShapedPrograms:
        graphs.append(ShapedPrograms(module, inputs, BackendOptions(verify=False, fallback="eager")))
        return graphs[-1]

    torch._dynamo.reset()
    model, x = nn.Sequential(nn.Linear(24, 24), layer("relu", False)).eval(), torch.randn(2, 7, 24)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, backend=noting)(x), model(x), rtol=1e-3, atol=1e-4)
    (program,) = (program for graph in graphs for program in graph.programs.values())
    assert not program.fallbacks


class Padded(nn.Module):
    """An encoder of padded sequences, and a linear layer behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoder(layer("relu", False), 2)
        self.head: nn.Module = nn.Linear(24, 5)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.encoder(x, src_key_padding_mask=padding))
        return result


def test_an_encoder_that_writes_zeros_at_padded_positions_is_left_to_pytorch(quick: Callable[..., Optimized]) -> None:
    model, x, padding = Padded().eval(), torch.randn(3, 7, 24), torch.zeros(3, 7, dtype=torch.bool)
    padding[0, 5:] = True
    with torch.no_grad():
        fast = quick(model, (x, padding))
        assert len(fast.choices) == 1  # the linear layer behind it
        for mask in (padding, ~padding, padding.roll(1)):
            torch.testing.assert_close(fast(x, mask), model(x, mask), equal_nan=True)
        model.head = nn.Identity().eval()
        with pytest.raises(MisuseError, match="padded rows become 0"):
            quick(model, (x, padding))
