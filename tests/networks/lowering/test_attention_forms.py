"""Attention that is written out, and masks that are computed: one program, with PyTorch's results."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.integrations.pytorch.hook.dynamo import backend
from seqtune.networks.module import NetworkModule
from seqtune.networks.optimized import Optimized
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm
from tests.support.torch_models import same

pytestmark = [needs_llvm, pytest.mark.filterwarnings("ignore::DeprecationWarning:torch")]


def product(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """With a mask that hides later keys."""
    scores = q @ k.transpose(-2, -1) / scale
    hidden = torch.triu(torch.full(scores.shape[-2:], float("-inf")), 1)
    return functional.dropout((scores + hidden).softmax(-1), 0.1, False) @ v


def batched(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """With all heads of all batches along one axis."""
    flat = [value.reshape(-1, *value.shape[2:]) for value in (q, k, v)]
    return torch.bmm(torch.softmax(torch.bmm(flat[0] / scale, flat[1].transpose(1, 2)), -1), flat[2]).view(q.shape)


def named(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """With named axes."""
    weights = (torch.einsum("bhid,bhjd->bhij", q, k) * (1 / scale)).softmax(-1)
    return torch.einsum("bhij,bhjd->bihd", weights, v).transpose(1, 2)


def windowed(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """With a factor for each head, two masks, and a further axis of windows."""
    q, k, v = (value.unsqueeze(0) for value in (q, k, v))
    factors, biases = torch.tensor([[[0.5]], [[2.0]]]), torch.arange(98.0).reshape(1, 1, 2, 7, 7) / 50
    return ((q @ k.transpose(-2, -1) * factors + biases + biases.flip(-1)).softmax(-1) @ v).squeeze(0)


def filled(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """With scores that are replaced."""
    scores = q @ k.transpose(-2, -1) / scale
    scores = scores.masked_fill(torch.tril(torch.ones(scores.shape[-2:])) == 0, float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Attention of two heads between linear layers."""

    def __init__(self, form: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> None:
        super().__init__()
        self.qkv, self.out, self.form = nn.Linear(16, 48), nn.Linear(16, 5), form

    def forward(self, x: Tensor) -> Tensor:
        n, length, _ = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
        result: Tensor = self.out(self.form(q, k, v, 8 ** 0.5).transpose(1, 2).reshape(n, length, 16))
        return result


@pytest.mark.parametrize("form", [product, batched, named, windowed, filled])
def test_written_attention_is_one_kernel(
        quick: Callable[..., Optimized], form: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> None:
    model = Attention(form).eval()
    fast = quick(model, torch.randn(2, 7, 16))
    steps = [step for step in steps_of(fast) if step not in ("copy", "aten.mul")]
    assert steps == ["aten.linear", "aten.scaled_dot_product_attention", "aten.linear"]
    assert same(fast, model, torch.randn(2, 7, 16))


def all_hidden(number: float) -> Callable[[Tensor, Tensor, Tensor, float], Tensor]:
    """Attention in which the second query sees no key: some scores are replaced first, the others then."""
    first = torch.zeros(7, 7, dtype=torch.bool)
    first[1, :3] = first[4, 2] = True
    second = torch.zeros(7, 7, dtype=torch.bool)
    second[1, 2:] = True

    def form(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        scores = 100 * q @ k.transpose(-2, -1) / scale
        computed = second & (q.abs().sum() < 1e30)
        return scores.masked_fill(first, number).masked_fill(computed, number).softmax(-1) @ v

    return form


@pytest.mark.parametrize("number", [-1e9, torch.finfo(torch.float32).min, float("-inf")])
def test_a_query_without_keys_gets_what_pytorch_gives_it(quick: Callable[..., Optimized], number: float) -> None:
    """Equal weights, whatever its scores are, or NaN."""
    model = Attention(all_hidden(number)).eval()
    nn.init.normal_(model.qkv.weight)
    x = torch.randn(2, 7, 16)
    fast = quick(model, x)
    assert any("scaled_dot_product_attention" in step for module in fast.modules()
               if isinstance(module, NetworkModule) for step in module.steps)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-3, atol=1e-3, equal_nan=True)
    assert bool(model(x)[:, 1].isnan().all()) == (number == float("-inf"))


class Shaped(nn.Module):
    """Attention of queries, keys and values of these shapes, with a mask that reads the input or None."""

    def __init__(self, shapes: tuple[tuple[int, ...], ...], mask: tuple[int, ...] | None = None,
                 **options: Any) -> None:
        super().__init__()
        self.shapes, self.mask, self.options = shapes, mask, options
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        q, k, v = (x[-math.prod(shape) // 8:].reshape(shape) for shape in self.shapes)
        mask = None if self.mask is None else x[:math.prod(self.mask) // 8].reshape(self.mask)
        result: Tensor = self.last(functional.scaled_dot_product_attention(q, k, v, mask, **self.options))
        return result


FIVE = ((2, 3, 4, 5, 8), (2, 3, 4, 16, 8), (2, 3, 4, 16, 8))


@pytest.mark.parametrize("model", [
    Shaped(FIVE), Shaped(FIVE, (5, 16)), Shaped(FIVE, (4, 5, 16)), Shaped(FIVE, (1, 1, 4, 1, 16)),
    Shaped(FIVE, (2, 1, 1, 5, 16)), Shaped(FIVE, (3, 4, 5, 16)), Shaped((FIVE[0],) * 3, is_causal=True),
    Shaped((FIVE[0], (2, 1, 2, 16, 8), (2, 1, 2, 16, 8)), enable_gqa=True),
    Shaped(((2, 1, 3, 2, 4, 5, 8), (2, 1, 3, 2, 4, 7, 8), (2, 1, 3, 2, 4, 7, 8))),
    Shaped(((2, 4, 5, 8), (1, 4, 16, 8), (1, 4, 16, 8))), Shaped(((1, 1, 5, 8), (2, 4, 16, 8), (2, 1, 16, 8))),
    Shaped(((4, 5, 8), (4, 16, 8), (4, 16, 8)), (4, 1, 16))])
def test_attention_of_any_number_of_axes_is_one_kernel(quick: Callable[..., Optimized], model: Shaped) -> None:
    x = torch.randn(64 * 30, 8)
    fast = quick(model.eval(), x)
    assert [step for step in steps_of(fast) if step != "copy"] == [
        "aten.linear", "aten.scaled_dot_product_attention", "aten.linear"]
    assert same(fast, model, x)


class Heads(nn.Linear):
    """Attention of operands, before a linear layer; with `grouped` each head of keys or values serves several."""

    def __init__(self, grouped: bool) -> None:
        super().__init__(8, 3)
        self.grouped = grouped

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # type: ignore[override]
        return super().forward(functional.scaled_dot_product_attention(q, k, v, enable_gqa=self.grouped))


@pytest.mark.parametrize(("keys", "values", "grouped"), [(1, 4, False), (4, 1, False), (4, 2, True)])
def test_keys_and_values_may_have_different_numbers_of_heads(
        quick: Callable[..., Optimized], checkpoint: Path, keys: int, values: int, grouped: bool) -> None:
    model = Heads(grouped).eval()
    operands = torch.randn(2, 4, 5, 8), torch.randn(2, keys, 16, 8), torch.randn(2, values, 16, 8)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=partial(backend, options={
        "verify": False, "checkpoint": str(checkpoint), "fallback": "eager"}))
    with torch.no_grad():
        assert same(quick(model, operands), model, *operands)
        assert same(compiled, model, *operands)
