"""Translations of what is computed from means and squares: group and instance normalisation, variances, norms."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from seqtune.kernels.llvm.text.formula import IDENTITY, Formula

from ..nodes import Node, Pointwise, Reduction
from ..steps.rows import SCALE_SHIFT
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axes_of, shape_of

aten = torch.ops.aten
SQUARE = Formula.of("mul", 0, 0)
SQUARED_DISTANCE = Formula(2, (("sub", 0, 1), ("mul", 2, 2)))


def _group_norm(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    return _normalised(lowering, node, int(given["num_groups"]))


def _native_group_norm(lowering: Lowering, node: fx.Node) -> tuple[Node]:
    return (_normalised(lowering, node, int(arguments(node)["group"])),)


def _instance_norm(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    if not given["use_input_stats"]:
        raise UnknownOperationError("an instance normalisation with statistics of its own")
    return _normalised(lowering, node, lowering.value(given["input"]).shape[1])


def _normalised(lowering: Lowering, node: fx.Node, groups: int) -> Node:
    """(x - mean) / sqrt(variance + epsilon) of each group of channels, with a scale and a shift of each channel.

    Averages are taken over the pixels first (channels are contiguous), then over the channels of each group. What
    remains for every element is a product and a sum, which are fused with the formula that follows.
    """
    given = arguments(node)
    x = lowering.value(given["input"])
    n, channels, *pixels = x.shape
    whole = (n, channels, *[1] * len(pixels))
    axes = tuple(range(2, len(x.shape)))

    def mean_of_groups(inputs: list[Node], formula: Formula) -> Node:
        mean: Node = lowering.add(Reduction(whole, inputs, "mean", axes, True, formula)) if pixels \
            else lowering.add(Pointwise(whole, inputs, formula)) if formula.lines else inputs[0]
        if groups == channels:
            return mean
        grouped = (n, groups, channels // groups)
        mean = lowering.add(Reduction((n, groups, 1), [lowering.add_reshaped(mean, grouped)], "mean", (2,), True))
        spread = lowering.add_expanded(mean, grouped)
        return lowering.add_view(spread, whole, lambda view: view.reshaped(whole))

    mean = mean_of_groups([x], IDENTITY)
    variance = mean_of_groups([x, mean], SQUARED_DISTANCE)
    weight, bias = (lowering.constant(given[name]) for name in ("weight", "bias"))
    scale = torch.ones(channels) if weight is None else weight
    shift = torch.zeros(channels) if bias is None else bias
    scale_node, shift_node = (lowering.value(value.reshape(whole[1:])) for value in (scale, shift))
    factor = lowering.add(Pointwise(whole, [variance, scale_node], Formula(2, (
        ("add", 0, float(given["eps"])), ("rsqrt", 2), ("mul", 3, 1)))))
    moved = lowering.add(Pointwise(whole, [mean, factor, shift_node], Formula(3, (("mul", 0, 1), ("sub", 2, 3)))))
    return lowering.add(Pointwise(x.shape, [x, factor, moved], SCALE_SHIFT))


def _variance(root: bool) -> Maker:
    """The variance over axes, or its root."""
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        x, shape, keep = lowering.value(given["self"]), shape_of(node), bool(given.get("keepdim"))
        axes = axes_of(given.get("dim"), len(x.shape))
        count = math.prod(x.shape[axis] for axis in axes)
        correction = given.get("correction", given.get("unbiased"))
        left = count - (1 if correction is None else float(correction))
        if left <= 0:
            raise UnknownOperationError("a variance of too few numbers")
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))
        mean = lowering.add(Reduction(kept, [x], "mean", axes, True))
        lines: list[Any] = [("mul", 0, count / left)]
        if root:
            lines.append(("sqrt", 1))
        squares = lowering.add(Reduction(shape, [x, mean], "mean", axes, keep, SQUARED_DISTANCE))
        return lowering.add(Pointwise(shape, [squares], Formula(1, tuple(lines))))

    return make


def _vector_norm(lowering: Lowering, node: fx.Node) -> Node:
    """The sum of absolute values, or the root of the sum of squares, over axes."""
    given = arguments(node)
    order = given.get("ord", given.get("p"))
    if order not in (1, 2) or given.get("dtype") is not None:
        raise UnknownOperationError(f"a norm of the order {order}")
    x, shape, keep = lowering.value(given["self"]), shape_of(node), bool(given.get("keepdim"))
    axes = axes_of(given.get("dim"), len(x.shape))
    formula = Formula.of("abs", 0) if order == 1 else SQUARE
    total: Node = lowering.add(Reduction(shape, [x], "sum", axes, keep, formula))
    return total if order == 1 else lowering.add(Pointwise(shape, [total], Formula.of("sqrt", 0)))


MOMENTS: dict[Any, Maker] = {
    aten.group_norm.default: _group_norm, aten.native_group_norm.default: _native_group_norm,
    aten.instance_norm.default: _instance_norm,
    **dict.fromkeys((aten.var.correction, aten.var.dim, aten.var.default), _variance(False)),
    **dict.fromkeys((aten.std.correction, aten.std.dim, aten.std.default), _variance(True)),
    aten.linalg_vector_norm.default: _vector_norm, aten.norm.ScalarOpt_dim: _vector_norm,
}
