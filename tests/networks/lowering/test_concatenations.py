"""Concatenations that a network returns: the parts are written in place only where their operations can do that."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from seqtune.networks.optimized import Optimized
from tests.support.llvm import needs_llvm

pytestmark = needs_llvm


class Joined(nn.Module):
    """Two convolutions, whose results are joined along an axis."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.first, self.second, self.axis = nn.Conv2d(8, 16, 3), nn.Conv2d(8, 16, 3), axis

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.first(x), torch.cat([self.second(x), x[:, :, 2:, 2:]], 1)[:, :16]], self.axis)


class Nested(nn.Module):
    """A concatenation of channels of a concatenation of images."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(8, 16, 3), nn.Conv2d(8, 16, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.cat([self.first(x[:1]), self.second(x[1:])], 0), self.third(x)], 1)


@pytest.mark.parametrize("model", [Joined(0), Joined(1), Joined(2), Nested()], ids=["batch", "channel", "row", "both"])
def test_joined_convolutions_are_results(quick: Callable[..., Optimized], model: nn.Module) -> None:
    x = torch.randn(2, 8, 12, 12)
    fast = quick(model.eval(), x)
    with torch.no_grad():
        result, expected = fast(x), model(x)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
