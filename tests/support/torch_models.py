"""Small models of every form, and whether two of them compute the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def random_norms(model: nn.Module) -> nn.Module:
    """The model for evaluation, its batch normalisations as if trained."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight, module.running_var):
                assert tensor is not None
                nn.init.uniform_(tensor, 0.5, 2.0)
            for tensor in (module.bias, module.running_mean):
                assert tensor is not None
                nn.init.normal_(tensor)
    return model.eval()


def norm_net() -> nn.Module:
    """A net with layers of every kind and random weights."""
    last = nn.Linear(8, 5)
    with torch.no_grad():
        last.bias.copy_(torch.linspace(-1, 1, 5))  # random ones stop all five results in 3 nets of 100
    return random_norms(nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 20, 3, padding="same"), nn.BatchNorm2d(20), nn.ReLU(inplace=True),
        nn.Conv2d(20, 8, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), last, nn.ReLU()))


class Residual(nn.Module):
    """A block whose parts are each read in another way."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.norm = nn.BatchNorm2d(16)
        self.in_place = in_place

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.first(x)
        z = self.norm(y)  # y is read again below: nothing may be folded into the first
        z = self.second(z).relu()
        if self.in_place:
            z += y
            return z.relu_(), y
        return torch.relu(z + y), y


class Branching(nn.Module):
    """Its own code depends on numbers, which no graph can; its parts' does not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm_net = nn.Conv2d(3, 3, 1), norm_net()

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        found: Tensor = self.norm_net(x if x.sum().item() < 1e30 else -x)
        return found


def same(optimized: Any, model: nn.Module, *inputs: Tensor) -> bool:
    """Whether results agree, in shape and number; nothing agrees with zeros alone, which would prove little."""
    found, wanted = optimized(*inputs), model(*inputs)
    pairs = [(found, wanted)] if isinstance(found, Tensor) else list(zip(found, wanted, strict=True))
    return all(one.shape == other.shape and bool((one - other).abs().max() < 1e-4 * other.abs().max())
               for one, other in pairs)
