"""write_out_encoder_layers: PyTorch's one operation for a layer of a Transformer's encoder, as its parts."""

from __future__ import annotations

import torch
from torch import Tensor, fx
from torch.nn import functional

FUSED = torch._transformer_encoder_layer_fwd  # nn.TransformerEncoderLayer calls it without gradients in eval mode


def encoder_layer(x: Tensor, width: int, heads: int, qkv_weight: Tensor, qkv_bias: Tensor, out_weight: Tensor,
                  out_bias: Tensor, gelu: bool, norm_first: bool, eps: float, norm_weight_1: Tensor,
                  norm_bias_1: Tensor, norm_weight_2: Tensor, norm_bias_2: Tensor, weight_1: Tensor, bias_1: Tensor,
                  weight_2: Tensor, bias_2: Tensor) -> Tensor:
    """The layer of `x` (batch, tokens, width): attention and two linear layers, with residual sums and normalisations.

    The operands are in the order of the operation. Source: nn.TransformerEncoderLayer.
    """
    def attended(x: Tensor) -> Tensor:
        parts = functional.linear(x, qkv_weight, qkv_bias).reshape(*x.shape[:2], 3, heads, width // heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind()
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return functional.linear(mixed, out_weight, out_bias)

    def fed_forward(x: Tensor) -> Tensor:
        inner = functional.linear(x, weight_1, bias_1)
        return functional.linear(functional.gelu(inner) if gelu else functional.relu(inner), weight_2, bias_2)

    def first_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Tensor) -> Tensor:
        return functional.layer_norm(x, (width,), norm_weight_2, norm_bias_2, eps)

    if norm_first:
        x = x + attended(first_norm(x))
        return x + fed_forward(second_norm(x))
    x = first_norm(x + attended(x))
    return second_norm(x + fed_forward(x))


def write_out_encoder_layers(graph: fx.Graph) -> None:
    """Let each such operation without a mask call `encoder_layer`, which an export writes out as plain operations."""
    for node in graph.find_nodes(op="call_function", target=FUSED):
        if not node.kwargs and all(value is None for value in node.args[18:]):
            node.target, node.args = encoder_layer, node.args[:18]
