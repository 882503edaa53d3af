"""Translations of convolutions and linear layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from seqtune.errors import ProblemError
from seqtune.kernels.operations import conv2d, gemm
from seqtune.kernels.problem import Problem

from ..nodes import Layer, Node
from .lowering import Lowering, Maker, UnknownOperationError, arguments, one_row, shape_of

aten = torch.ops.aten


def _weights(lowering: Lowering, argument: Any) -> Tensor:
    weights = lowering.constant(argument)
    if weights is None:
        raise UnknownOperationError("a layer without weights")
    return weights


def _layer(lowering: Lowering, x: Node, shape: tuple[int, ...], problem: Problem, weights: Tensor,
           bias: Tensor | None) -> Node:
    return lowering.add(Layer(shape, [x], problem, weights.contiguous().numpy(),
                              None if bias is None else bias.contiguous().numpy()))


def _convolution(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    x, weights, bias = lowering.value(given["input"]), _weights(lowering, given["weight"]), \
        lowering.constant(given["bias"])
    if len(x.shape) not in (3, 4) or given.get("transposed"):
        raise UnknownOperationError("a convolution that is transposed or not of images or sequences")
    shape, sequence = shape_of(node), len(x.shape) == 3
    if sequence:  # an image of one row
        x, weights = lowering.add_reshaped(x, one_row(x.shape)), weights.unsqueeze(2)

    def sizes(name: str, neutral: int) -> Any:
        value = given[name]
        return value if isinstance(value, str) else (neutral, pair(value)[1]) if sequence else pair(value)

    try:
        features = conv2d.layer_features(x.shape, weights.shape[0], tuple(weights.shape[2:]), sizes("stride", 1),
                                         sizes("padding", 0), sizes("dilation", 1), given["groups"])
        problem = Problem.make("conv2d", **features, layout="NHWC")
    except ProblemError as error:
        raise UnknownOperationError(f"a convolution that no kernel computes ({error})") from None
    problem, weights = _without_unread_taps(problem, weights)
    if not sequence:
        return _layer(lowering, x, shape, problem, weights, bias)
    return lowering.add_reshaped(_layer(lowering, x, one_row(shape), problem, weights, bias), shape)


def _without_unread_taps(problem: Problem, weights: Tensor) -> tuple[Problem, Tensor]:
    """The convolution without outer taps that read only padding, such as most taps of a widely dilated filter.

    An axis is left as it is if the rest of the filter would not be padded alike on both sides.
    """
    for axis, (taps, size, out, pad, stride, dilation) in enumerate((
            ("r", "h", "out_h", "pad_h", "stride_h", "dilation_h"),
            ("s", "w", "out_w", "pad_w", "stride_w", "dilation_w")), 2):
        read = [tap for tap in range(problem.size(taps)) if any(
            0 <= pixel * problem.size(stride) + tap * problem.size(dilation) - problem.size(pad) < problem.size(size)
            for pixel in range(problem.size(out)))]
        if not read or len(read) == problem.size(taps):
            continue
        left, count = problem.size(pad) - read[0] * problem.size(dilation), read[-1] + 1 - read[0]
        changes = {taps: count, pad: left, dilation: problem.size(dilation) if count > 1 else 1}
        if left < 0:
            continue
        smaller = Problem.make(problem.type, **{**dict(problem.features), **changes})
        if smaller.size(out) == problem.size(out):
            problem, weights = smaller, weights.narrow(axis, read[0], count)
    return problem, weights


def _linear(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    return linear_product(lowering, node, given["input"], _weights(lowering, given["weight"]),
                    lowering.constant(given["bias"]))


def _addmm(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    if (given["beta"], given["alpha"]) != (1, 1):
        raise UnknownOperationError("a scaled product")
    bias, weights = lowering.constant(given["self"]), _weights(lowering, given["mat2"])
    if bias is None or tuple(bias.shape) != (weights.shape[1],):
        raise UnknownOperationError("a sum that is no bias")
    return linear_product(lowering, node, given["mat1"], weights.t(), bias)


def linear_product(lowering: Lowering, node: fx.Node, x: Any, weights: Tensor, bias: Tensor | None) -> Node:
    """The product of the rows of x with weights, (n, k)."""
    rows = lowering.value(x)
    if weights.dim() != 2:
        raise UnknownOperationError("weights that are no matrix")
    try:
        problem = Problem.make("gemm", **gemm.layer_features(rows.shape, weights.shape[0], weights.shape[1]))
    except ProblemError as error:
        raise UnknownOperationError(f"a product that no kernel computes ({error})") from None
    return _layer(lowering, rows, shape_of(node), problem, weights, bias)


def pair(value: Any) -> tuple[int, int]:
    """Height and width of an argument that may be one number for both."""
    values = [value] if isinstance(value, int) else list(value)
    return int(values[0]), int(values[-1])


LAYERS: dict[Any, Maker] = {
    **dict.fromkeys((aten.conv2d.default, aten.conv2d.padding, aten.conv1d.default, aten.conv1d.padding,
                     aten.convolution.default), _convolution),
    aten.linear.default: _linear, aten.addmm.default: _addmm,
}
