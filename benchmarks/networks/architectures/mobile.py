"""Networks for small devices: MobileNetV3-Large, EfficientNet-B0 and ShuffleNetV2, for images of 224 by 224."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from .plain import CLASSES, ConvolutionUnit


def multiple_of_8(channels: float) -> int:
    """Round a width to the nearest multiple of 8, but never down by more than a tenth."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded


class ChannelScale(nn.Module):
    """Squeeze and excitation: each channel is scaled by a factor computed from the means of all."""

    def __init__(self, channels: int, squeezed: int, activation: type[nn.Module], gate: type[nn.Module]) -> None:
        super().__init__()
        self.factors = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, squeezed, 1), activation(),
                                     nn.Conv2d(squeezed, channels, 1), gate())

    def forward(self, x: Tensor) -> Tensor:
        """Compute a tensor of the input's shape."""
        result: Tensor = self.factors(x) * x
        return result


class InvertedBlock(nn.Module):
    """MobileNet's block: 1x1 to `expanded` channels, depthwise, the scale of channels, and 1x1 to the output.

    The input is added where the shapes are equal. The first 1x1 convolution is left out where it expands nothing.
    """

    def __init__(self, inputs: int, expanded: int, outputs: int, size: int, stride: int,
                 activation: type[nn.Module], scale: nn.Module | None, epsilon: float) -> None:
        super().__init__()
        unit = partial(ConvolutionUnit, epsilon=epsilon)
        expansion = [unit(inputs, expanded, activation=activation)] if expanded != inputs else []
        self.body = nn.Sequential(*expansion, unit(expanded, expanded, size, stride, expanded, activation),
                                  *([scale] if scale is not None else []),
                                  unit(expanded, outputs, activation=None))
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, outputs, height / stride, width / stride)."""
        result: Tensor = self.body(x)
        return result + x if self.residual else result


MOBILENET_V3 = (  # table 1 of the paper: filter size, expanded and output channels, scale, hard-swish, stride
    (3, 16, 16, False, False, 1), (3, 64, 24, False, False, 2), (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2), (5, 120, 40, True, False, 1), (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2), (3, 200, 80, False, True, 1), (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1), (3, 480, 112, True, True, 1), (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2), (5, 960, 160, True, True, 1), (5, 960, 160, True, True, 1))


def mobilenet_v3() -> nn.Module:
    """MobileNetV3-Large (Howard and others, 2019)."""
    epsilon = 1e-3
    layers: list[nn.Module] = [ConvolutionUnit(3, 16, 3, 2, activation=nn.Hardswish, epsilon=epsilon)]
    inputs = 16
    for size, expanded, outputs, scaled, swish, stride in MOBILENET_V3:
        scale = ChannelScale(expanded, multiple_of_8(expanded / 4), nn.ReLU, nn.Hardsigmoid) if scaled else None
        layers.append(InvertedBlock(inputs, expanded, outputs, size, stride, nn.Hardswish if swish else nn.ReLU,
                                    scale, epsilon))
        inputs = outputs
    return nn.Sequential(*layers, ConvolutionUnit(160, 960, activation=nn.Hardswish, epsilon=epsilon),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(960, 1280), nn.Hardswish(), nn.Dropout(0.2),
                         nn.Linear(1280, CLASSES))


EFFICIENTNET = (  # table 1 of the paper: expansion, filter size, stride, output channels, depth
    (1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1))


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0 (Tan and Le, 2019); its padding is the same on all sides."""
    layers: list[nn.Module] = [ConvolutionUnit(3, 32, 3, 2, activation=nn.SiLU)]
    inputs = 32
    for expansion, size, first_stride, outputs, depth in EFFICIENTNET:
        for index in range(depth):
            expanded = expansion * inputs
            scale = ChannelScale(expanded, inputs // 4, nn.SiLU, nn.Sigmoid)
            layers.append(InvertedBlock(inputs, expanded, outputs, size, 1 if index else first_stride, nn.SiLU, scale,
                                        1e-5))
            inputs = outputs
    return nn.Sequential(*layers, ConvolutionUnit(320, 1280, activation=nn.SiLU), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, CLASSES))


class ShuffleBlock(nn.Module):
    """ShuffleNetV2's block: one half of the channels passes, or is computed too at stride 2; then both interleave."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        half = outputs // 2
        self.first: nn.Module | None = None
        if stride > 1:
            self.first = nn.Sequential(ConvolutionUnit(inputs, inputs, 3, stride, inputs, None),
                                       ConvolutionUnit(inputs, half))
        entering = inputs if stride > 1 else half
        self.second = nn.Sequential(ConvolutionUnit(entering, half), ConvolutionUnit(half, half, 3, stride, half, None),
                                    ConvolutionUnit(half, half))

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, outputs, height / stride, width / stride)."""
        if self.first is None:
            first, rest = x.chunk(2, 1)
        else:
            first, rest = self.first(x), x
        joined = torch.cat([first, self.second(rest)], 1)
        batch, channels, height, width = joined.shape
        shuffled = joined.view(batch, 2, channels // 2, height, width).transpose(1, 2).contiguous()
        return shuffled.view(batch, channels, height, width)


class MeanOverImage(nn.Module):
    """The mean over height and width."""

    def forward(self, x: Tensor) -> Tensor:
        """Compute (batch, channels)."""
        return x.mean([2, 3])


def shufflenet_v2() -> nn.Module:
    """ShuffleNetV2 of width 1 (Ma and others, 2018)."""
    layers: list[nn.Module] = [ConvolutionUnit(3, 24, 3, 2), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for outputs, depth in ((116, 4), (232, 8), (464, 4)):
        for index in range(depth):
            layers.append(ShuffleBlock(inputs, outputs, 1 if index else 2))
            inputs = outputs
    return nn.Sequential(*layers, ConvolutionUnit(464, 1024), MeanOverImage(), nn.Linear(1024, CLASSES))
