"""Normalisation of groups of channels, variances, norms and further activations in one program."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.optimized import Optimized
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm
from tests.support.torch_models import same

pytestmark = needs_llvm


class Groups(nn.Module):
    """Group and instance normalisation of images and sequences, each with an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.groups, self.whole = nn.Conv2d(3, 12, 3), nn.GroupNorm(4, 12), nn.GroupNorm(1, 12)
        self.images, self.sequences = nn.InstanceNorm2d(12, affine=True), nn.InstanceNorm1d(12)
        for norm in (self.groups, self.whole, self.images):
            nn.init.normal_(norm.weight, 1.0)
            nn.init.normal_(norm.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x)
        return (functional.silu(self.groups(x)), self.whole(x) + x, torch.relu(self.images(x + 3)),
                self.sequences(x.flatten(2)))


class Measures(nn.Module):
    """Variances, norms and the largest numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 12, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x)
        return (x.var(1), x.std((2, 3), unbiased=False, keepdim=True), functional.normalize(x, dim=1),
                x.norm(p=1, dim=(2, 3)), x.max(1)[0], x.amin((1, 2)), torch.stack((x, x + 1), 2), x.abs() ** 2.5)


class Activations(nn.Module):
    """Activations, each after a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 12, 1)
        self.slopes, self.slope = nn.PReLU(12), nn.PReLU(init=0.3)
        nn.init.uniform_(self.slopes.weight)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = 3 * self.first(x)
        functions: tuple[Callable[[Tensor], Tensor], ...] = (
            self.slopes, self.slope, nn.SELU(), nn.CELU(0.7), nn.CELU(-5.0), nn.Softplus(2.0, 4.0), nn.LogSigmoid(),
            nn.Threshold(0.1, 0.2), nn.GLU(1), nn.ELU(0.5), lambda y: 1 - y, nn.Softsign())
        return tuple(function(x) for function in functions)


@pytest.mark.parametrize("model", [Groups(), Measures(), Activations()], ids=lambda value: type(value).__name__)
def test_all_is_one_program_with_pytorch_s_results(quick: Callable[..., Optimized], model: nn.Module) -> None:
    fast = quick(model.eval(), torch.randn(2, 3, 7, 6))
    steps_of(fast)
    x = torch.randn(2, 3, 7, 6)
    for number, (result, expected) in enumerate(zip(fast(x), model(x), strict=True)):
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5, msg=f"result {number}")


def test_means_far_from_zero_are_subtracted_first(quick: Callable[..., Optimized]) -> None:
    first = nn.Conv2d(2, 8, 1)
    assert first.bias is not None
    nn.init.constant_(first.bias, 300.0)
    model = nn.Sequential(first, nn.GroupNorm(2, 8)).eval()
    fast = quick(model, torch.randn(1, 2, 6, 6))
    assert same(fast, model, torch.randn(1, 2, 6, 6))
