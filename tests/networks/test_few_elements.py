"""Numbers without axes and tensors without elements: PyTorch's results, beside layers that our kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm


class Numbers(nn.Linear):
    """Operations along the axis that PyTorch lets a number have, and operations that add one."""

    def forward(self, x: Tensor, number: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        y = super().forward(x)
        n = y.sum() + number
        return (y * n, n.sum(dim=-1), n.softmax(0), n.log_softmax(-1), n.squeeze(0) + 1, n.flatten() + 1,
                n.unsqueeze(0) + 1, torch.stack([n, number]), torch.cat([n.view(1), number.reshape(1)]), n.mean(0) + 1,
                n.var(0, unbiased=False), n.norm(), torch.linalg.vector_norm(n, dim=0), n.amax(0), n.max(0)[0],
                n.expand(3, 4) + 1, n.repeat(3) + 1, n.transpose(0, -1) + 1, n.permute(()) + 1, n.t() + 1, n.flip(()),
                n.roll(1) + 1, n.cumsum(0) + 1, n.index_select(0, torch.tensor([0])) + 1, y.flip(()) + 1, y[0].t() + 1)


class Empties(nn.Linear):
    """Operations of tensors without elements."""

    def forward(self, x: Tensor, rows: Tensor, images: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        y = super().forward(x)
        nothing = y[:, :0]
        whole, piece = torch.split(y, [8, 0], 1)
        return (whole * 2, piece * 2, nothing.sum(1) + 1, nothing.sum() + 1, nothing.prod(1) + y[:, 0],
                torch.cat([nothing, y], 1) + 1, torch.cat([torch.empty(0), y], 1) + 1, torch.cat([nothing, piece], 1),
                nothing @ y[:0].reshape(0, 5) + 1, torch.stack([y[:0], y[8:]]), super().forward(rows),
                functional.conv2d(images, torch.ones(3, 2, 3, 3)), functional.max_pool2d(images, 2),
                functional.pad(nothing, (1, 1)) + 1, functional.layer_norm(y[:0], (8,)), y[:0].amax(1), rows.softmax(1),
                functional.embedding(torch.zeros(0, dtype=torch.long), self.weight),
                functional.scaled_dot_product_attention(y[None], y[None, :0], y[None, :0]), *nothing.chunk(2))


@pytest.mark.parametrize(("model", "examples"), [
    (Numbers(8, 8), (torch.ones(4, 8), torch.tensor(3.))),
    (Empties(8, 8), (torch.ones(4, 8), torch.ones(0, 8), torch.ones(0, 2, 4, 4)))])
def test_numbers_without_axes_and_tensors_without_elements_are_pytorch_s(
        model: nn.Module, examples: Any, quick: Callable[..., Optimized]) -> None:
    with torch.no_grad():
        torch.testing.assert_close(quick(model.eval(), examples)(*examples), model(*examples), equal_nan=True)
