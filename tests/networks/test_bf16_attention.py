"""Attention of networks in bf16: what it reads and writes, and PyTorch's beside it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from seqtune.kernels.devices.device import Device
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.networks.capture.examples import difference
from seqtune.networks.nodes import AttentionHeads, Gather, Input, Layer, Node, Pointwise, Rearranged
from seqtune.networks.plan.precision import TOLERANCES
from seqtune.networks.program.device_threads import binder_of
from seqtune.networks.selection.layer_comparison import layer_forms
from seqtune.tuner.backends.llvm import discovery as llvm
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


@needs_bf16
@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (1, 2, 9, 9)])
def test_attention_is_compared_with_pytorch_s_in_bf16(shape: tuple[int, ...]) -> None:
    q, k, v = (Input((1, 2, 9, 16), [], index, (288, 144, 16, 1)) for index in range(3))
    strides = tuple(int(math.prod(shape[axis + 1:])) for axis in range(4))
    heads = AttentionHeads(q.shape, [q, k, v, Input(shape, [], 3, strides)], 0.3, False)
    device = next(device for device in llvm.devices() if device.names()["bf16_dots"])
    stored(heads, dtypes="bf16", device=device)
    binder = binder_of(device)
    configuration = SearchSpace(kernel("llvm.attention_bf16"), heads.problem, device).default
    forms = layer_forms(heads, configuration, binder)
    ours = forms.ours()
    assert isinstance(ours, tuple)
    assert difference([forms.pytorch[0]()], [ours[1]]) < TOLERANCES["bf16"]
    assert ours[1].dtype == forms.pytorch[0]().dtype == torch.bfloat16
