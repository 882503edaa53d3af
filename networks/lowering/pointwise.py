"""Translations of operations that compute element by element: arithmetic, activations, comparisons, normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from seqtune.kernels.llvm.text.formula import Formula

from ..nodes import Constant, Layer, Node, Pointwise
from ..passes.rewriting import renumbered, without_doubles
from ..steps.rows import SCALE_SHIFT
from .lowering import Lowering, Maker, UnknownOperationError, arguments, axis_of, shape_of

aten = torch.ops.aten
UNARY = {aten.neg: "neg", aten.abs: "abs", aten.sqrt: "sqrt", aten.rsqrt: "rsqrt", aten.reciprocal: "reciprocal",
         aten.exp: "exp", aten.expm1: "expm1", aten.log: "log", aten.log1p: "log1p", aten.erf: "erf",
         aten.floor: "floor"}
ACTIVATIONS = {aten.relu: "relu", aten.relu6: "relu6", aten.silu: "silu", aten.sigmoid: "sigmoid", aten.tanh: "tanh",
               aten.hardswish: "hardswish", aten.hardsigmoid: "hardsigmoid", aten.mish: "mish"}
SELU = (1.6732632423543772, 1.0507009873554805)  # alpha and scale
LOG_SIGMOID = Formula(1, (("abs", 0), ("neg", 1), ("exp", 2), ("log1p", 3), ("min", 0, 0.0), ("sub", 5, 4)))
BINARY = {aten.add: "add", aten.sub: "sub", aten.mul: "mul", aten.div: "div", aten.maximum: "max", aten.minimum: "min",
          aten.multiply: "mul", aten.subtract: "sub", aten.divide: "div", aten.true_divide: "div"}


def computed(lowering: Lowering, node: fx.Node, formula: Formula, *inputs: Any) -> Node:
    """The result of a formula of fp32 values; constants of one element become part of the formula."""
    shape = shape_of(node)
    nodes = [lowering.value(value) for value in inputs]
    numbers = {index: float(value.array.reshape(-1)[0]) for index, value in enumerate(nodes)
               if isinstance(value, Constant) and value.array.size == 1}
    if len(numbers) == len(nodes):
        numbers.popitem()
    kept = [node for index, node in enumerate(nodes) if index not in numbers]
    positions = iter(range(len(kept)))
    formula = renumbered(formula, len(kept), [
        numbers[index] if index in numbers else next(positions) for index in range(len(nodes))])
    formula, distinct = without_doubles(formula, kept)
    return lowering.add(Pointwise(shape, distinct, formula))


def _unary(name: str) -> Maker:
    return lambda lowering, node: computed(lowering, node, Formula(1, ((name, 0),)), node.args[0])


def _activation(name: str) -> Maker:
    return lambda lowering, node: computed(lowering, node, Formula.of_activation(name), node.args[0])


def _binary(name: str) -> Maker:
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        if given.get("rounding_mode") is not None:
            raise UnknownOperationError("a division that rounds")
        scale = given.get("alpha", 1)
        if scale in (1, None):
            return computed(lowering, node, Formula(2, ((name, 0, 1),)), *node.args[:2])
        return computed(lowering, node, Formula(2, (("mul", 1, float(scale)), (name, 0, 2))), *node.args[:2])

    return make


def _scaled_sum(name: str) -> Maker:
    """self + value * tensor1 * tensor2 (addcmul), or value * tensor1 / tensor2 (addcdiv)."""
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        value = float(given["value"])
        lines = ((name, 1, 2), ("add", 0, 3)) if value == 1 else (("mul", 1, value), (name, 3, 2), ("add", 0, 4))
        return computed(lowering, node, Formula(3, lines), given["self"], given["tensor1"], given["tensor2"])

    return make


def _power(lowering: Lowering, node: fx.Node) -> Node:
    exponent = float(node.args[1])  # type: ignore[arg-type]
    powers = {0.5: ("sqrt", 0), 2.0: ("mul", 0, 0), -0.5: ("rsqrt", 0), -1.0: ("reciprocal", 0), 1.0: ("mul", 0, 1.0)}
    if exponent == 3.0:
        return computed(lowering, node, Formula(1, (("mul", 0, 0), ("mul", 1, 0))), node.args[0])
    return computed(lowering, node, Formula(1, (powers.get(exponent, ("pow", 0, exponent)),)), node.args[0])


def _gelu(lowering: Lowering, node: fx.Node) -> Node:
    name = "gelu_tanh" if arguments(node)["approximate"] == "tanh" else "gelu"
    return computed(lowering, node, Formula.of_activation(name), node.args[0])


def _clamp(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    low, high = (given.get(long, given.get(short)) for long, short in (("min", "min_val"), ("max", "max_val")))
    limits = [-math.inf if low is None else low, math.inf if high is None else high]
    if not all(isinstance(limit, int | float) for limit in limits):
        raise UnknownOperationError("limits that are tensors")
    return computed(lowering, node, Formula(1, (("clamp", 0, float(limits[0]), float(limits[1])),)), node.args[0])


def _leaky_relu(lowering: Lowering, node: fx.Node) -> Node:
    slope = float(arguments(node)["negative_slope"])
    formula = Formula(1, (("mul", 0, slope), ("ge", 0, 0.0), ("where", 2, 0, 1)))
    return computed(lowering, node, formula, node.args[0])


def _prelu(lowering: Lowering, node: fx.Node) -> Node:
    """One slope, or one for each channel, the second axis."""
    slopes = lowering.constant(node.args[1])
    if slopes is None:
        raise UnknownOperationError("a PReLU without slopes")
    axes = len(shape_of(node))
    if slopes.dim() == 1 and slopes.numel() > 1 and axes > 2:
        slopes = slopes.reshape(-1, *[1] * (axes - 2))
    formula = Formula(2, (("mul", 0, 1), ("ge", 0, 0.0), ("where", 3, 0, 2)))
    return computed(lowering, node, formula, node.args[0], slopes)


def _parametrised(name: str, *parameters: str) -> Maker:
    """An activation whose parameters have these names in PyTorch."""
    def make(lowering: Lowering, node: fx.Node) -> Node:
        given = arguments(node)
        return computed(lowering, node, Formula.of_activation(name, *(float(given[key]) for key in parameters)),
                        node.args[0])

    return make


def _celu(lowering: Lowering, node: fx.Node) -> Node:
    alpha = float(arguments(node)["alpha"])
    return computed(lowering, node, Formula.of_activation("elu", alpha, 1.0, 1.0 / alpha), node.args[0])


def _threshold(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    formula = Formula(1, (("le", 0, float(given["threshold"])), ("where", 1, float(given["value"]), 0)))
    return computed(lowering, node, formula, node.args[0])


def _reversed_difference(lowering: Lowering, node: fx.Node) -> Node:
    given = arguments(node)
    formula = Formula(2, (("mul", 0, float(given["alpha"])), ("sub", 1, 2)))
    return computed(lowering, node, formula, given["self"], given["other"])


def _gated(lowering: Lowering, node: fx.Node) -> Node:
    """glu: the first half times the sigmoid of the second one."""
    given = arguments(node)
    x, shape = lowering.value(given["self"]), shape_of(node)
    axis = axis_of(given["dim"], len(shape))
    first, gate = (lowering.add_slice(x, axis, begin, begin + shape[axis]) for begin in (0, shape[axis]))
    return lowering.add(Pointwise(shape, [first, gate], Formula(2, (("sigmoid", 1), ("mul", 0, 2)))))


def _batch_norm(lowering: Lowering, node: fx.Node) -> tuple[Node]:
    given = arguments(node)
    if given.get("training"):
        raise UnknownOperationError("a batch normalisation that trains")
    scale, shift, mean, variance = (lowering.constant(given[name])
                                    for name in ("weight", "bias", "running_mean", "running_var"))
    if mean is None or variance is None:
        raise UnknownOperationError("a batch normalisation without statistics")
    factor = torch.rsqrt(variance.double() + given["eps"]) * (1.0 if scale is None else scale.double())
    moved = (0.0 if shift is None else shift.double()) - mean.double() * factor
    x = lowering.value(given["input"])
    spread = lowering.spread.get(x)
    if spread is not None and _is_read_once(lowering, given["input"]) and not spread.layer.epilogue.lines:
        _fold(spread.layer, spread.channels(factor), spread.channels(moved))
        return (x,)
    if isinstance(x, Layer) and _is_read_once(lowering, given["input"]) and not x.epilogue.lines and len(x.inputs) == 1:
        _fold(x, factor, moved)
        return (x,)
    channels = (-1, *[1] * (len(x.shape) - 2))
    operands = [lowering.value(value.float().reshape(channels)) for value in (factor, moved)]
    return (lowering.add(Pointwise(x.shape, [x, *operands], SCALE_SHIFT)),)


def _is_read_once(lowering: Lowering, node: Any) -> bool:
    """Whether one operation reads a value, also where the value is a copy of another that nothing else reads."""
    value = lowering.values[node]
    while isinstance(node, fx.Node) and lowering.values.get(node) is value:
        if len(node.users) != 1:
            return False
        node = node.args[0] if node.args else None
    return True


def _fold(layer: Layer, factor: Tensor, moved: Tensor) -> None:
    """Fold factors and summands of the output channels into a layer."""
    scales = factor.numpy().astype(np.float64)
    bias = np.zeros_like(scales) if layer.bias is None else layer.bias.astype(np.float64)
    layer.scale(scales)
    layer.bias = (bias * scales + moved.numpy()).astype(np.float32)


def _where(lowering: Lowering, node: fx.Node) -> Node:
    condition, x, other = node.args
    mask = lowering.values.get(condition) if isinstance(condition, fx.Node) else None
    if isinstance(mask, Tensor) and mask.dtype == torch.bool:
        return computed(lowering, node, Formula(3, (("where", 0, 1, 2),)), mask.float(), x, other)
    raise UnknownOperationError("a condition that is computed")


def _masked_fill(lowering: Lowering, node: fx.Node) -> Node:
    x, condition, number = node.args
    mask = lowering.values.get(condition) if isinstance(condition, fx.Node) else None
    if isinstance(mask, Tensor) and mask.dtype == torch.bool and isinstance(number, int | float):
        return computed(lowering, node, Formula(2, (("where", 0, float(number), 1),)), mask.float(), x)
    raise UnknownOperationError("a condition that is computed")


POINTWISE: dict[Any, Maker] = {
    **{packet.default: _unary(name) for packet, name in UNARY.items()},
    **{packet.default: _activation(name) for packet, name in ACTIVATIONS.items()},
    **{getattr(packet, overload): _binary(name) for packet, name in BINARY.items()
       for overload in ("Tensor", "Scalar", "default", "Tensor_mode") if hasattr(packet, overload)},
    aten.addcmul.default: _scaled_sum("mul"), aten.addcdiv.default: _scaled_sum("div"),
    aten.pow.Tensor_Scalar: _power, aten.square.default: lambda lowering, node: computed(
        lowering, node, Formula(1, (("mul", 0, 0),)), node.args[0]),
    aten.gelu.default: _gelu, aten.clamp.default: _clamp, aten.clamp_min.default: _clamp, aten.hardtanh.default: _clamp,
    aten.clamp_max.default: _clamp, aten.leaky_relu.default: _leaky_relu, aten.prelu.default: _prelu,
    aten._prelu_kernel.default: _prelu, aten.elu.default: _parametrised("elu", "alpha", "scale", "input_scale"),
    aten.selu.default: lambda lowering, node: computed(
        lowering, node, Formula.of_activation("elu", *SELU), node.args[0]),
    aten.celu.default: _celu, aten.softplus.default: _parametrised("softplus", "beta", "threshold"),
    aten.log_sigmoid.default: lambda lowering, node: computed(lowering, node, LOG_SIGMOID, node.args[0]),
    aten.threshold.default: _threshold, aten.glu.default: _gated,
    aten.rsub.Scalar: _reversed_difference, aten.rsub.Tensor: _reversed_difference,
    aten.batch_norm.default: lambda lowering, node: _batch_norm(lowering, node)[0],
    aten._native_batch_norm_legit_no_training.default: _batch_norm,
    aten.where.self: _where, aten.where.ScalarSelf: _where, aten.where.ScalarOther: _where,
    aten.masked_fill.Scalar: _masked_fill,
}
