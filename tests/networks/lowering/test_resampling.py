"""Images of another size inside a network: one program, with PyTorch's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.networks.optimized import Optimized
from tests.networks.test_networks import steps_of
from tests.support.llvm import needs_llvm
from tests.support.torch_models import random_norms

pytestmark = needs_llvm


class Branches(nn.Module):
    """A convolution, changes of the size of its result, and a convolution of each changed image."""

    def __init__(self, changes: Sequence[Callable[[Tensor], Tensor]]) -> None:
        super().__init__()
        self.first, self.changes = nn.Conv2d(3, 8, 3), list(changes)
        self.modules_of_changes = nn.ModuleList(change for change in changes if isinstance(change, nn.Module))
        self.last = nn.Conv2d(2, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.first(x)
        return tuple(self.last(torch.relu(change(x))[:, :2]) for change in self.changes)


def compare(fast: nn.Module, model: nn.Module, *shape: int) -> None:
    """Compare every result. Fails with the number of the branch that differs."""
    x = torch.randn(shape)
    with torch.no_grad():
        for number, (result, expected) in enumerate(zip(fast(x), model(x), strict=True)):
            assert result.shape == expected.shape, number
            assert result.stride() == expected.stride(), number
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4, msg=f"branch {number}")


def interpolation(**options: Any) -> Callable[[Tensor], Tensor]:
    """An interpolation with these options."""
    return lambda x: functional.interpolate(x, **options)


def test_changes_of_the_size_are_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    model = Branches([
        interpolation(scale_factor=2), interpolation(size=(9, 4), mode="nearest-exact"),
        interpolation(scale_factor=(1.5, 0.7), mode="bilinear"),
        interpolation(size=(12, 4), mode="bilinear", antialias=True),
        interpolation(scale_factor=(0.4, 1.5), mode="bicubic", antialias=True),
        interpolation(size=(5, 13), mode="bilinear", align_corners=True), interpolation(size=(8, 6), mode="bicubic"),
        nn.PixelShuffle(2), nn.PixelUnshuffle(2), nn.ReflectionPad2d((1, 2, 0, 3)), nn.ReplicationPad2d(1),
        nn.AdaptiveAvgPool2d((5, 4)), lambda x: x.flip(2), nn.ChannelShuffle(4)]).eval()
    fast = quick(model, torch.randn(2, 3, 8, 10))
    steps_of(fast)
    compare(fast, model, 2, 3, 8, 10)


TRANSPOSED = [
    nn.ConvTranspose2d(8, 4, 2, 2), nn.ConvTranspose2d(8, 4, 4, 2, 1, bias=False),
    nn.ConvTranspose2d(8, 4, 3, 2, 1, output_padding=1), nn.ConvTranspose2d(8, 4, 3, 2, 1),
    nn.ConvTranspose2d(8, 4, 3, padding=2, dilation=2), nn.ConvTranspose2d(8, 4, (5, 2), (3, 1), (2, 0)),
    nn.ConvTranspose2d(8, 6, 4, 2, 1, groups=2), nn.ConvTranspose2d(8, 4, 1, 3, output_padding=2)]


def test_transposed_convolutions_are_part_of_the_program(quick: Callable[..., Optimized]) -> None:
    model = Branches([*TRANSPOSED, nn.Sequential(nn.ConvTranspose2d(8, 4, 2, 2), nn.BatchNorm2d(4))])
    random_norms(model)
    fast = quick(model, torch.randn(2, 3, 6, 7))
    steps_of(fast)
    compare(fast, model, 2, 3, 6, 7)


def test_a_transposed_convolution_takes_the_norm_and_the_activation(quick: Callable[..., Optimized]) -> None:
    model = random_norms(nn.Sequential(nn.ConvTranspose2d(8, 4, 4, 2, 1), nn.BatchNorm2d(4), nn.ReLU()))
    fast = quick(model, torch.randn(1, 8, 4, 4))
    assert {step for step in steps_of(fast) if step != "copy"} == {"aten.conv_transpose2d"}
    x = torch.randn(1, 8, 4, 4)
    torch.testing.assert_close(fast(x), model(x), rtol=1e-4, atol=1e-5)


class Copied(nn.Module):
    """A normalisation of a copy; the original is read, too, so nothing may be folded into its layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.first, self.norm = layer, nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        y = self.first(x)
        return self.norm(y.clone()) + y, y.relu()


@pytest.mark.parametrize("layer", [nn.Conv2d(8, 4, 1), nn.ConvTranspose2d(8, 4, 2, 2)], ids=["direct", "transposed"])
def test_a_norm_of_a_copy_leaves_the_original_as_it_is(quick: Callable[..., Optimized], layer: nn.Module) -> None:
    model = random_norms(Copied(layer))
    compare(quick(model, torch.randn(2, 8, 4, 4)), model, 2, 8, 4, 4)
