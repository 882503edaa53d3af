"""Attention of networks in bf16: what it reads and writes, and its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.kernels.devices.device import Device
from seqtune.networks.nodes import AttentionHeads, Gather, Input, Layer, Node, Pointwise, Rearranged
from seqtune.networks.optimized import Optimized
from seqtune.networks.plan.precision import TOLERANCES
from tests.networks.test_bf16_networks import BF16, elements, needs_bf16, stored
from tests.support.networks.nodes import ADD, layer, operand


def heads_of(size: int = 16, queries: int = 8) -> tuple[Node, Node, AttentionHeads, Layer]:
    """Attention of a query that is computed, with a mask that comes from a table, and a layer that reads its result."""
    q, k, v = (Input((1, 2, length, size), [], index, (2 * length * size, length * size, size, 1))
               for index, length in enumerate((queries, 8, 8)))
    scaled = Pointwise(q.shape, [q, layer(operand(queries, size), size)], ADD)
    mask = Gather((1, 2, queries, 8), [operand(2 * queries), operand(9, 8)])
    heads = AttentionHeads(q.shape, [scaled, k, v, mask], 1.0, False)
    rows = Rearranged((2 * queries, size), [heads], lambda view: view.reshaped((2 * queries, size)))
    return scaled, mask, heads, layer(rows, 4)


def test_attention_reads_and_writes_bf16_and_its_mask_stays_fp32() -> None:
    scaled, mask, heads, after = heads_of()
    stored(after)
    assert elements(scaled, mask, heads, after) == ["bf16", "fp32", "bf16", "fp32"]
    assert heads.problem["dtype"] == "bf16"
    _, _, heads, _ = heads_of()
    stored(heads)
    assert (heads.problem["dtype"], heads.element.dtype) == ("bf16", "fp32")  # a result outside


@pytest.mark.parametrize(("size", "queries", "device"), [
    (15, 8, BF16), (16, 1, BF16), (16, 8, replace(BF16, extra=()))])
def test_attention_without_a_kernel_of_bf16_reads_and_writes_fp32(size: int, queries: int, device: Device) -> None:
    scaled, _, heads, after = heads_of(size, queries)
    stored(after, device=device)
    assert elements(scaled, heads) == ["fp32", "fp32"]
    assert heads.problem["dtype"] == "fp32"


class Masked(nn.Module):
    """Attention of what a layer computes, with a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.Linear(16, 16)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.heads(x)
        result: Tensor = functional.scaled_dot_product_attention(y, y, y, mask, scale=0.3)
        return result


@needs_bf16
@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (1, 2, 9, 9)])
def test_attention_with_a_mask_is_computed_in_bf16(quick: Callable[..., Optimized], shape: tuple[int, ...]) -> None:
    fast = quick(Masked().eval(), (torch.randn(1, 2, 9, 16), torch.randn(shape)), precision="bf16")
    (heads,) = [choice for choice in fast.choices if choice.problem.type == "attention"]
    assert heads.configuration is not None
    assert heads.configuration.kernel == "llvm.attention_bf16"
    assert 0 < fast.error < TOLERANCES["bf16"]
