"""Translation of transposed convolutions: a convolution computes the pixels of all phases as channels.

With a stride of s, output pixel s q + i reads the filter's taps i, i + s, i + 2 s, ... only, and of the input the
pixels q, q - 1, q - 2, ... Every phase i is therefore a convolution of stride 1 with ceil(filter / s) taps (Shi and
others, Is the deconvolution layer the same as a convolutional layer?, 2016). Nothing is multiplied by inserted zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from seqtune.errors import ProblemError
from seqtune.kernels.operations import conv2d
from seqtune.kernels.problem import Problem

from ..nodes import Concatenation, Layer, Node
from .layers import pair
from .lowering import Lowering, Maker, SpreadLayer, UnknownOperationError, arguments, one_row, shape_of

aten = torch.ops.aten


@dataclass(frozen=True, slots=True)
class TransposedAxis:
    """One axis: sizes of the filter, stride, padding and dilation, and of the input and the output."""

    filter: int
    stride: int
    padding: int
    dilation: int
    size: int
    result: int

    @property
    def taps(self) -> int:
        """The taps of every phase."""
        return -(-self.filter // self.stride)

    @property
    def count(self) -> int:
        """The output pixels of every phase."""
        return -(-self.result // self.stride)

    @property
    def border(self) -> int:
        """The padding, on both sides, of the convolution of all phases; negative where it would have to crop."""
        reach = self.dilation * (self.taps - 1)
        last = (self.count * self.stride - 1 + self.padding) // self.stride
        low = reach - self.padding // self.stride
        return low if low < 0 else max(low, last - self.size + 1)

    def sources(self) -> list[tuple[int, int]]:
        """The phase and the first pixel of the convolution, for every pixel of a block of `stride` output pixels."""
        first = self.border - self.dilation * (self.taps - 1)
        return [((pixel + self.padding) % self.stride, (pixel + self.padding) // self.stride + first)
                for pixel in range(self.stride)]


def _transposed(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, weights, bias = lowering.value(given["input"]), lowering.constant(given["weight"]), \
        lowering.constant(given["bias"])
    if len(x.shape) not in (3, 4) or weights is None or weights.dim() != len(x.shape):
        raise UnknownOperationError("a transposed convolution of neither images nor sequences")
    shape, sequence, groups = shape_of(node), len(x.shape) == 3, int(given["groups"])
    if sequence:  # an image of one row
        x, weights = lowering.add_reshaped(x, one_row(x.shape)), weights.unsqueeze(2)

    def sizes(name: str, neutral: int) -> tuple[int, int]:
        return (neutral, pair(given[name])[1]) if sequence else pair(given[name])

    axes = [TransposedAxis(*numbers) for numbers in zip(
        weights.shape[2:], sizes("stride", 1), sizes("padding", 0), sizes("dilation", 1), x.shape[2:],
        (1, shape[2]) if sequence else shape[2:], strict=True)]
    if any((axis.dilation > 1 and axis.stride > 1) or axis.border < 0 for axis in axes):
        raise UnknownOperationError("a transposed convolution with a dilated filter or a large padding")
    result = _spread(lowering, x, axes, weights, bias, groups)
    return lowering.add_reshaped(result, shape) if sequence else result


def _spread(lowering: Lowering, x: Node, axes: Sequence[TransposedAxis], weights: Tensor, bias: Tensor | None,
            groups: int) -> Node:
    """The layer, its pixels in order, as an image."""
    high, wide = axes
    channels = weights.shape[1]  # output channels of a group
    n, phases = x.shape[0], high.stride * wide.stride
    filters = _phases(weights, axes, groups)
    try:
        features = conv2d.layer_features(x.shape, filters.shape[0], tuple(filters.shape[2:]), 1,
                                         (high.border, wide.border), (high.dilation, wide.dilation), groups)
        problem = Problem.make("conv2d", **features, layout="NHWC")
    except ProblemError as error:
        raise UnknownOperationError(f"a convolution that no kernel computes ({error})") from None
    rows, columns = (axis.size + 2 * axis.border - axis.dilation * (axis.taps - 1) for axis in axes)

    def of_layer(numbers: Tensor) -> Tensor:
        """Numbers of the result's channels for those of the layer."""
        return numbers.reshape(groups, 1, channels).expand(groups, phases, channels).reshape(-1)

    layer = Layer((n, filters.shape[0], rows, columns), [x], problem, filters.contiguous().numpy(),
                  None if bias is None else of_layer(bias).contiguous().numpy())
    lowering.add(layer)
    split = lowering.add_reshaped(layer, (n, groups, high.stride, wide.stride, channels, rows, columns))
    value = lowering.add_permuted(split, (0, 5, 2, 6, 3, 1, 4))  # (n, rows, stride, columns, stride, groups, channels)
    for number, axis in enumerate(axes):
        value = _in_order(lowering, value, axis, 1 + 2 * number)
    image = (n, high.count * high.stride, wide.count * wide.stride, groups * channels)
    result = lowering.add_reshaped(value, image)
    if image[1:3] != (high.result, wide.result):  # the last block of pixels is not whole
        image = (n, high.result, wide.result, image[3])
        result = lowering.add_view(result, image, lambda view: view.sliced(1, 0, image[1]).sliced(2, 0, image[2]))
    result = lowering.add_permuted(result, (0, 3, 1, 2))
    lowering.spread[result] = SpreadLayer(layer, of_layer)
    return result


def _phases(weights: Tensor, axes: Sequence[TransposedAxis], groups: int) -> Tensor:
    """The filters (groups, phases and channels of a group; input channels; taps) of the convolution."""
    (inputs, channels), (high, wide) = weights.shape[:2], axes
    whole = weights.new_zeros(inputs, channels, high.taps * high.stride, wide.taps * wide.stride)
    whole[:, :, :high.filter, :wide.filter] = weights
    parts = whole.reshape(groups, inputs // groups, channels, high.taps, high.stride, wide.taps, wide.stride)
    parts = parts.permute(0, 4, 6, 2, 1, 3, 5).flip(5, 6)  # the last tap reads the pixel before
    return parts.reshape(-1, inputs // groups, high.taps, wide.taps)


def _in_order(lowering: Lowering, value: Node, axis: TransposedAxis, at: int) -> Node:
    """Put the phases, axis `at` + 1, behind the pixels of axis `at`, in the order of the output."""
    sources = axis.sources()
    shape = list(value.shape)
    shape[at] = axis.count

    def cut(axes: Sequence[int], first: int, begin: int, end: int) -> Node:
        return lowering.add_view(value, axes, lambda view: view.sliced(at, first, first + axis.count).sliced(
            at + 1, begin, end))

    if [phase for phase, _ in sources] == list(range(axis.stride)) and len({first for _, first in sources}) == 1:
        return cut(shape, sources[0][1], 0, axis.stride)
    part = [*shape[:at + 1], 1, *shape[at + 2:]]
    return lowering.add(Concatenation(tuple(shape), [
        cut(part, first, phase, phase + 1) for phase, first in sources], at + 1))


_KINDS: Sequence[Callable[..., Any]] = (aten.conv_transpose1d.default, aten.conv_transpose2d.input)
TRANSPOSED: dict[Any, Maker] = dict.fromkeys(_KINDS, _transposed)
