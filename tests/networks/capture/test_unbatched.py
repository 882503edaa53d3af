"""Convolutions and pooling of an image or a sequence without a batch are steps of the program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from seqtune.networks.optimized import Optimized
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm
from tests.support.torch_models import same

pytestmark = needs_llvm


class Parts(nn.Module):
    """A convolution, and the results of several operations on its own."""

    def __init__(self, first: nn.Module, *parts: nn.Module) -> None:
        super().__init__()
        self.first, self.parts = first, nn.ModuleList(parts)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.relu(self.first(x))
        return x.flatten(1), *(part(x) for part in self.parts)


@pytest.mark.parametrize(("model", "shape"), [
    (Parts(nn.Conv2d(3, 8, 3, padding="same"), nn.MaxPool2d(2), nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(3),
           nn.AdaptiveAvgPool2d((4, 5)), nn.ConvTranspose2d(8, 5, 3, 2)), (3, 11, 13)),
    (Parts(nn.Conv1d(3, 8, 3, padding=1), nn.MaxPool1d(2), nn.AvgPool1d(3, 2, 1), nn.AdaptiveAvgPool1d(4),
           nn.ConvTranspose1d(8, 5, 3, 2)), (3, 17))])
def test_operands_without_a_batch(quick: Callable[..., Optimized], model: nn.Module, shape: tuple[int, ...]) -> None:
    fast, x = quick(model.eval(), torch.randn(shape)), torch.randn(shape)
    steps_of(fast)  # one program and nothing else
    assert same(fast, model, x)
    assert [result.stride() for result in fast(x)] == [result.stride() for result in model(x)]
