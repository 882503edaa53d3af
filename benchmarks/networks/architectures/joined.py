"""Convolutional networks whose blocks are joined with their input: ResNeXt-50 (added) and DenseNet-121 (appended)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .plain import CLASSES, ConvolutionUnit

GROUPS = 32  # groups of ResNeXt's 3x3 convolutions
GROWTH = 32  # channels that a layer of DenseNet appends


class GroupedBottleneck(nn.Module):
    """ResNeXt's block: 1x1, grouped 3x3 and 1x1 convolutions, added to the input."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 2 * width
        self.body = nn.Sequential(ConvolutionUnit(inputs, width), ConvolutionUnit(width, width, 3, stride, GROUPS),
                                  ConvolutionUnit(width, outputs, activation=None))
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = ConvolutionUnit(inputs, outputs, 1, stride, activation=None)
        self.activation = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, 2 width, height / stride, width / stride)."""
        result: Tensor = self.activation(self.body(x) + self.shortcut(x))
        return result


def resnext50() -> nn.Module:
    """ResNeXt-50 with 32 groups of 4 channels (Xie and others, 2016)."""
    layers: list[nn.Module] = [ConvolutionUnit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate((3, 4, 6, 3)):
        width = 128 << stage
        for index in range(depth):
            layers.append(GroupedBottleneck(inputs, width, 2 if stage and not index else 1))
            inputs = 2 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, CLASSES))


class DenseLayer(nn.Sequential):
    """DenseNet's layer: batch normalisation and ReLU stand before each of its two convolutions."""

    def __init__(self, inputs: int) -> None:
        super().__init__(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * GROWTH, 1, bias=False),
                         nn.BatchNorm2d(4 * GROWTH), nn.ReLU(),
                         nn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False))


class DenseBlock(nn.ModuleList):
    """Layers of which each reads the block's input and the results of all layers before it."""

    def __init__(self, inputs: int, depth: int) -> None:
        super().__init__(DenseLayer(inputs + index * GROWTH) for index in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, inputs + depth * GROWTH, height, width)."""
        parts = [x]
        for layer in self:
            parts.append(layer(torch.cat(parts, 1)))
        return torch.cat(parts, 1)


def densenet121() -> nn.Module:
    """DenseNet-121 (Huang and others, 2016)."""
    layers: list[nn.Module] = [ConvolutionUnit(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for depth in (6, 12, 24, 16):
        if len(layers) > 2:  # the transition from the block before
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1, bias=False), nn.AvgPool2d(2)]
            width //= 2
        layers.append(DenseBlock(width, depth))
        width += depth * GROWTH
    return nn.Sequential(*layers, nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(width, CLASSES))
