"""Translations of normalisations, reductions, pooling and look-ups."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from ..nodes import Gather, Node, Pool, Reduction, RowOperation
from ..plan.precision import NAMES
from .layers import pair
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axes_of, axis_of, one_row, shape_of
from .resampling import adaptive_average

aten = torch.ops.aten


def _softmax(kind: str) -> Maker:
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        shape = shape_of(node)
        axis = axis_of(given["dim"], len(shape))
        if axis == len(shape) - 1:
            return lowering.add(RowOperation(shape, [lowering.value(given["self"])], kind))
        order = [*range(axis), *range(axis + 1, len(shape)), axis]
        back = tuple(sorted(range(len(shape)), key=order.__getitem__))
        rows = lowering.add_permuted(lowering.value(given["self"]), order)
        return lowering.add_permuted(lowering.add(RowOperation(rows.shape, [rows], kind)), back)

    return make


def _norm(kind: str) -> Maker:
    """layer_norm or rms_norm over the last axes, which become one."""
    def make(lowering: Lowering, node: fx.Node) -> Any:
        given = arguments(node)
        x, shape = lowering.value(given["input"]), tuple(given["normalized_shape"])
        size = math.prod(shape)
        whole = x.shape
        flat = (*whole[:len(whole) - len(shape)], size)
        constants = [lowering.constant(given.get(name)) for name in ("weight", "bias")]
        scale, shift = constants
        if scale is None and shift is not None:
            raise UnknownOperationError("a normalisation that shifts and does not scale")
        inputs = [x if len(shape) == 1 else lowering.add_view(x, flat, lambda view: view.reshaped(flat))]
        inputs += [lowering.value(constant.reshape(size)) for constant in constants if constant is not None]
        epsilon = given.get("eps")
        result = lowering.add(RowOperation(flat, inputs, kind,
                                           torch.finfo(torch.float32).eps if epsilon is None else float(epsilon)))
        return result if len(shape) == 1 else lowering.add_view(result, whole, lambda view: view.reshaped(whole))

    return make


def _native_layer_norm(lowering: Lowering, node: fx.Node) -> tuple[Node]:
    return (_norm("layer_norm")(lowering, node),)


def _reduction(kind: str) -> Maker:
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        x = lowering.value(given["self"])
        if given.get("dtype") not in (None, *NAMES):
            raise UnknownOperationError("a reduction to another type")
        axes = axes_of(given.get("dim"), len(x.shape))
        return lowering.add(Reduction(shape_of(node), [x], kind, axes, bool(given.get("keepdim"))))

    return make


def _largest(kind: str) -> Maker:
    """The largest or smallest numbers along an axis; their indices have no translation."""
    def make(lowering: Lowering, node: fx.Node) -> tuple[Node]:
        given = arguments(node)
        x, keep = lowering.value(given["self"]), bool(given["keepdim"])
        axis = axis_of(given["dim"], len(x.shape))
        shape = (*x.shape[:axis], *[1] * keep, *x.shape[axis + 1:])
        return (lowering.add(Reduction(shape, [x], kind, (axis,), keep)),)

    return make


def _adaptive_average(lowering: Lowering, node: fx.Node) -> Node:
    x, shape = lowering.value(node.args[0]), shape_of(node)
    count = 2 if "2d" in str(node.target) else 1
    outs, sizes = shape[-count:], x.shape[-count:]
    if all(size == 1 for size in outs):
        return lowering.add(Reduction(shape, [x], "mean", tuple(range(len(shape) - count, len(shape))), True))
    if count == 1 or any(size % out for size, out in zip(sizes, outs, strict=True)):
        return adaptive_average(lowering, node)  # windows of different sizes
    window = sizes[0] // outs[0], sizes[1] // outs[1]
    if window == (1, 1):
        return x
    return lowering.add(Pool(shape, [x], "average", window, window, (0, 0)))


def _pool(kind: str) -> Maker:
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        x = lowering.value(given["self"])
        value = node.meta["val"]
        shape = shape_of(node) if not isinstance(value, tuple | list) else tuple(value[0].shape)
        sequence = "1d" in str(node.target)
        if len(x.shape) != (3 if sequence else 4):  # `give_batches` adds none where indices are results, too
            raise UnknownOperationError("pooling of an image without a batch")

        def sizes(value: Any, neutral: int) -> tuple[int, int]:
            return (neutral, pair(value)[1]) if sequence else pair(value)

        filter = sizes(given["kernel_size"], 1)
        image, whole = x, shape
        if sequence:  # an image of one row
            image, whole = lowering.add_reshaped(x, one_row(x.shape)), one_row(shape)
        pooled = lowering.add(Pool(whole, [image], kind, filter, sizes(given["stride"] or filter, 1),
                                   sizes(given["padding"], 0), sizes(given.get("dilation", 1), 1),
                                   bool(given.get("count_include_pad", True)), given.get("divisor_override")))
        return lowering.add_reshaped(pooled, shape) if sequence else pooled

    return make


def _embedding(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    indices, table = lowering.indices(given["indices"]), lowering.constant(given["weight"])
    if indices is None or table is None:
        raise UnknownOperationError("indices that are computed")
    return lowering.add(Gather(shape_of(node), [indices, lowering.value(table)]))


ROWS: dict[Any, Maker] = {
    aten.softmax.int: _softmax("softmax"), aten._softmax.default: _softmax("softmax"),
    aten.log_softmax.int: _softmax("log_softmax"), aten._log_softmax.default: _softmax("log_softmax"),
    aten.layer_norm.default: _norm("layer_norm"), aten.native_layer_norm.default: _native_layer_norm,
    aten.rms_norm.default: _norm("rms_norm"),
    aten.mean.dim: _reduction("mean"), aten.sum.dim_IntList: _reduction("sum"), aten.amax.default: _reduction("max"),
    aten.amin.default: _reduction("min"), aten.mean.default: _reduction("mean"),
    aten.adaptive_avg_pool2d.default: _adaptive_average, aten.adaptive_avg_pool1d.default: _adaptive_average,
    aten._adaptive_avg_pool2d.default: _adaptive_average,
    aten.max_pool2d.default: _pool("max"), aten.avg_pool2d.default: _pool("average"),
    aten.max_pool1d.default: _pool("max"), aten.avg_pool1d.default: _pool("average"),
    aten.max.dim: _largest("max"), aten.min.dim: _largest("min"), aten.max.default: _reduction("max"),
    aten.min.default: _reduction("min"), aten.sum.default: _reduction("sum"),
    aten.max_pool2d_with_indices.default: lambda lowering, node: (_pool("max")(lowering, node),),
    aten.embedding.default: _embedding,
}
