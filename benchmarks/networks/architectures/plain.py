"""Convolutional networks without residuals: VGG-16, SqueezeNet 1.1 and GoogLeNet, for images of 224 by 224."""

from __future__ import annotations

import torch
from torch import Tensor, nn

CLASSES = 1000


class ConvolutionUnit(nn.Sequential):
    """A convolution without bias, padded to keep the size at stride 1, batch normalisation, and an activation."""

    def __init__(self, inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1,
                 activation: type[nn.Module] | None = nn.ReLU, epsilon: float = 1e-5) -> None:
        super().__init__(nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs, epsilon))
        if activation is not None:
            self.append(activation())


def vgg16() -> nn.Module:
    """VGG-16, configuration D without batch normalisation (Simonyan and Zisserman, 2014)."""
    layers: list[nn.Module] = []
    inputs = 3
    for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(depth):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
            inputs = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Dropout(),
                         nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, CLASSES))


class Fire(nn.Module):
    """SqueezeNet's module: a 1x1 convolution, then a 1x1 and a 3x3 one beside each other."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(inputs, squeezed, 1), nn.ReLU())
        self.pointwise = nn.Sequential(nn.Conv2d(squeezed, expanded, 1), nn.ReLU())
        self.spatial = nn.Sequential(nn.Conv2d(squeezed, expanded, 3, padding=1), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, 2 expanded, height, width)."""
        x = self.squeeze(x)
        return torch.cat([self.pointwise(x), self.spatial(x)], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1 (Iandola and others, 2016, and their release 1.1)."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), partial_pool(),
        Fire(64, 16, 64), Fire(128, 16, 64), partial_pool(),
        Fire(128, 32, 128), Fire(256, 32, 128), partial_pool(),
        Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        nn.Dropout(), nn.Conv2d(512, CLASSES, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def partial_pool(stride: int = 2, padding: int = 0) -> nn.MaxPool2d:
    """A 3x3 max-pool; where the stride leaves a part of a window at the border, it counts."""
    return nn.MaxPool2d(3, stride, padding, ceil_mode=True)


class Inception(nn.Module):
    """GoogLeNet's module: four branches whose channels are joined.

    The second spatial branch has 3x3 filters, as the networks that are in use have, not the 5x5 of the paper.
    """

    def __init__(self, inputs: int, direct: int, reduced: tuple[int, int], spatial: tuple[int, int],
                 pooled: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([
            ConvolutionUnit(inputs, direct, epsilon=1e-3),
            *(nn.Sequential(ConvolutionUnit(inputs, narrow, epsilon=1e-3),
                            ConvolutionUnit(narrow, wide, 3, epsilon=1e-3))
              for narrow, wide in zip(reduced, spatial, strict=True)),
            nn.Sequential(partial_pool(1, 1), ConvolutionUnit(inputs, pooled, epsilon=1e-3))])

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, direct + spatial + pooled, height, width)."""
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet() -> nn.Module:
    """GoogLeNet with batch normalisation and without its auxiliary classifiers (Szegedy and others, 2014)."""
    return nn.Sequential(
        ConvolutionUnit(3, 64, 7, 2, epsilon=1e-3), partial_pool(),
        ConvolutionUnit(64, 64, epsilon=1e-3), ConvolutionUnit(64, 192, 3, epsilon=1e-3), partial_pool(),
        Inception(192, 64, (96, 16), (128, 32), 32), Inception(256, 128, (128, 32), (192, 96), 64), partial_pool(),
        Inception(480, 192, (96, 16), (208, 48), 64), Inception(512, 160, (112, 24), (224, 64), 64),
        Inception(512, 128, (128, 24), (256, 64), 64), Inception(512, 112, (144, 32), (288, 64), 64),
        Inception(528, 256, (160, 32), (320, 128), 128), nn.MaxPool2d(2, ceil_mode=True),
        Inception(832, 256, (160, 32), (320, 128), 128), Inception(832, 384, (192, 48), (384, 128), 128),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(), nn.Linear(1024, CLASSES))
