"""Products of two computed matrices: one program, with PyTorch's results."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqtune.integrations.pytorch.hook import explain
from seqtune.networks.optimized import Optimized
from seqtune.networks.program.product_jobs import MOST_JOBS
from tests.networks.lowering.test_indexing import Changes
from tests.networks.lowering.test_resampling import compare
from tests.networks.test_bf16_networks import needs_bf16
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm

FORMS: list[Callable[[Tensor], Tensor]] = [  # of (2, 5, 12)
    lambda x: x @ x.transpose(1, 2), lambda x: x.transpose(1, 2) @ x, lambda x: x[:1] @ x.transpose(1, 2),
    lambda x: x @ x[0].t(), lambda x: x[0] @ x.transpose(1, 2), lambda x: x[0] @ x[1].t(),
    lambda x: x[0] @ x[1, 0], lambda x: x[0, 0] @ x[1].t(), lambda x: x[0, 0] @ x.transpose(1, 2),
    lambda x: torch.bmm(x, x.roll(1, 1).transpose(1, 2)), lambda x: torch.einsum("bik,bjk->bji", x, x),
    lambda x: torch.einsum("bik,bjk->ijb", x, x), lambda x: torch.einsum("bik,bik->b", x, x),
    lambda x: torch.einsum("bik,jck->jbci", x, x), lambda x: torch.einsum("bik,b->ki", x, x[:, 0, 0]),
    lambda x: torch.baddbmm(x[:, :, :5], x, x.transpose(1, 2), beta=0.5, alpha=-2),
    lambda x: torch.baddbmm(x[:1, :1, :5], x, x.transpose(1, 2)),
    lambda x: torch.baddbmm(x[:, :, :5] / 0, x, x.transpose(1, 2), beta=0, alpha=3),
    lambda x: torch.tanh(x @ x.transpose(1, 2) / 50) * 50, lambda x: x.exp() @ torch.ones(12, 3),
    lambda x: torch.ones(2, 7, 5) @ x, lambda x: x @ torch.arange(72.0).reshape(2, 12, 3),
    lambda x: (x.exp() * torch.tensor([1.0, float("inf")]).reshape(2, 1, 1)) @ x.exp().transpose(1, 2)]


def of_heads(x: Tensor) -> Tensor:
    """Heads of 4 numbers, whose products are joined to tokens again."""
    heads = x.view(len(x), 5, 3, 4).transpose(1, 2)
    scores = (heads @ heads.transpose(-2, -1)).relu()
    return (scores @ heads).transpose(1, 2).reshape(x.shape)


def of_many_places(x: Tensor) -> Tensor:
    """Matrices that no steps of two axes lead to."""
    a = x.repeat(9, 2, 1).view(2, 3, 3, 2, 5, 2, 6).permute(0, 5, 1, 3, 2, 4, 6)
    return (a @ a.transpose(-2, -1)[:, :, :, :1]).permute(3, 1, 0, 2, 4, 5, 6)


def test_products_are_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    model = Changes(*FORMS, of_heads, of_many_places).eval()
    fast = quick(model, torch.randn(2, 5, 6), device="llvm:0")
    steps_of(fast)
    compare(fast, model, 2, 5, 6)


class ManyHeads(nn.Linear):
    """Queries, keys and values of one linear layer: a matrix for each of 20 heads of 20 texts."""

    def __init__(self) -> None:
        super().__init__(6, 3 * 20 * 2)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = super().forward(x).reshape(len(x), 5, 3, 20, 2).permute(2, 0, 3, 1, 4)
        result: Tensor = (q @ k.mT).relu() @ v
        return result


def test_products_of_many_matrices_take_few_launches(quick: Callable[..., Optimized]) -> None:
    model = ManyHeads().eval()
    fast = quick(model, torch.randn(20, 5, 6))
    assert steps_of(fast).count("aten.matmul") <= 2 * MOST_JOBS
    x = torch.randn(20, 5, 6)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


class TurnedSum(nn.Linear):
    """A sum over named axes whose result has the columns of the first factor as rows."""

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        return torch.einsum("ik,jk->ji", y, 2 * y)


def test_a_sum_over_named_axes_has_pytorch_s_strides(quick: Callable[..., Optimized]) -> None:
    model = TurnedSum(6, 7).eval()
    fast = quick(model, torch.randn(4, 6))
    assert "aten.matmul" in steps_of(fast)
    x = torch.randn(4, 6)
    torch.testing.assert_close(fast(x), model(x))
    assert fast(x).stride() == model(x).stride()


@needs_bf16
def test_products_of_a_network_in_bf16_are_computed_in_fp32(quick: Callable[..., Optimized]) -> None:
    model = Changes(of_heads).eval()
    x = torch.randn(2, 5, 6)
    fast = quick(model, x, precision="bf16")
    assert {step.element for step in explain(fast, x).steps if step.operation.startswith("aten.matmul")} == {"fp32"}
    with torch.no_grad():
        torch.testing.assert_close(fast(x)[0].float(), model(x)[0], rtol=0.05, atol=0.05)
