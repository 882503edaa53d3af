"""Rewriting: changes of a network that keep its results: pointwise chains become one formula, layers take epilogues.

A node is fused into its only reader, and only if it is no result of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.formula import MOST_LINES, Formula
from seqtune.kernels.problem import Problem

from ..node_list import NodeList
from ..nodes import (
    Concatenation,
    Constant,
    Layer,
    Node,
    Padding,
    Pointwise,
    Product,
    Rearranged,
    Reduction,
    RowOperation,
)
from ..steps.rows import SCALE
from ..steps.view import View
from .row_order import move_rows, moves_of_one

MOST_OPERANDS = 6  # maximum for a fused formula: each takes a pointer and a stride in the loop


def rewrite(nodes: NodeList) -> None:
    """Apply all changes."""
    changes: list[tuple[type[Node], Callable[[NodeList, Any], None]]] = [
        (Layer, _fuse_padding), (Pointwise, _fuse_into_reader), (Reduction, _become_rms_norm),
        (Layer, _fold_scale), (Pointwise, _hoist_over_view), (Pointwise, _hoist_over_moves),
        (Pointwise, _fuse_into_reader), (Layer, _fold_scale),
        (Pointwise, _become_epilogue), (Product, _fuse_formula), (Layer, _fuse_factors),
        (Rearranged, move_rows), (Concatenation, move_rows)]
    for kind, change in changes:
        for node in nodes:
            if isinstance(node, kind) and node in nodes:
                change(nodes, node)


def _fuse_padding(nodes: NodeList, layer: Layer) -> None:
    """Fuse a border of zeros that is the same on both sides into the convolution that reads it."""
    padding = layer.inputs[0]
    if layer.work.type != "conv2d" or not isinstance(padding, Padding) or padding.number or padding.low != padding.high:
        return
    if any(padding.low[:2]):
        return
    high, wide = padding.low[2:]
    x = padding.inputs[0]
    layer.work = Problem.make("conv2d", **{
        **dict(layer.work), "h": x.shape[2], "w": x.shape[3],
        "pad_h": layer.work.size("pad_h") + high, "pad_w": layer.work.size("pad_w") + wide})
    nodes.set_inputs(layer, [x, *layer.inputs[1:]])


def _hoist_over_view(nodes: NodeList, node: Pointwise) -> None:
    """Turn a formula of a reshaped or permuted layer into a view of the formula, so that the layer can take it."""
    for read in node.inputs:
        if not (isinstance(read, Rearranged) and read.inverse is not None and read.shape == node.shape
                and nodes.only_reader(read) is node):
            continue
        source = read.inputs[0]
        if not (isinstance(source, Layer) and nodes.only_reader(source) is read) \
                or any(other.shape not in (node.shape, ()) for other in node.inputs):
            continue
        inputs = [source if other is read else _seen_as(other, source.shape, read.inverse) for other in node.inputs]
        inner = Pointwise(source.shape, inputs, node.formula, name=node.name, origin=node.origin)
        outer = Rearranged(node.shape, [inner], read.transform, read.reshapes, read.inverse)
        nodes.insert_before(node, *(other for other in inputs if other not in nodes), inner, outer)
        nodes.replace(node, outer)
        return


def _hoist_over_moves(nodes: NodeList, node: Pointwise) -> None:
    """Move a formula of a layer's rearranged result, such as a pixel shuffle's, before the rearrangement."""
    moved = node.inputs[0]
    if len(node.inputs) != 1 or not isinstance(moved, Rearranged | Concatenation) \
            or nodes.only_reader(moved) is not node:
        return
    inside = moves_of_one(nodes, moved)
    source = next((read for move in inside for read in move.inputs if read not in inside), None)
    if not isinstance(source, Layer) or source.epilogue.lines or source in nodes.results \
            or any(reader not in inside for reader in nodes.readers(source)):
        return
    inner = Pointwise(source.shape, [source], node.formula, name=node.name, origin=node.origin)
    nodes.replace(node, moved)
    readers = list(dict.fromkeys(nodes.readers(source)))
    nodes.insert_before(readers[0], inner)
    for reader in readers:
        nodes.set_inputs(reader, [inner if read is source else read for read in reader.inputs])


def _seen_as(node: Node, shape: tuple[int, ...], transform: Callable[[View], View | None]) -> Node:
    """A view of the node; numbers without axes stay as they are."""
    return Rearranged(shape, [node], transform) if node.shape else node


def _fuse_into_reader(nodes: NodeList, node: Pointwise) -> None:
    """Fuse a formula into the formula that is its only reader."""
    reader = nodes.only_reader(node)
    if isinstance(reader, Pointwise) and reader.shape == node.shape and _can_join(node, reader):
        index = reader.inputs.index(node)
        formula = node.formula.then(reader.formula, index)
        inputs = [*node.inputs, *(read for number, read in enumerate(reader.inputs) if number != index)]
        reader.formula, inputs = without_doubles(formula, inputs)
        nodes.set_inputs(reader, inputs)


def _become_rms_norm(nodes: NodeList, mean: Reduction) -> None:
    """Recognise x / sqrt(mean(x^2) + epsilon), perhaps with a scale, that is written out."""
    square, inverse = mean.inputs[0], nodes.only_reader(mean)
    if mean.kind != "mean" or mean.formula.lines or mean.axes != (len(square.shape) - 1,) or not mean.keep \
            or not isinstance(square, Pointwise) or len(square.inputs) != 1 or nodes.only_reader(square) is not mean \
            or not isinstance(inverse, Pointwise) or inverse.inputs != [mean]:
        return
    x, product = square.inputs[0], nodes.only_reader(inverse)
    if not isinstance(product, Pointwise) or product.shape != x.shape:
        return
    scales = [read for read in product.inputs if read not in (x, inverse)]
    if x not in product.inputs or len(scales) > 1 \
            or any(not isinstance(scale, Constant) or scale.shape != x.shape[-1:] for scale in scales):
        return
    epsilons = [value for name, *given in inverse.formula.lines if name == "add" for value in given
                if isinstance(value, float)]
    if len(epsilons) != 1 or not _is_rms_norm(square, inverse, product, epsilons[0]):
        return
    row = RowOperation(x.shape, [x, *scales], "rms_norm", epsilons[0], name="rms_norm", origin=product.origin)
    nodes.insert_before(product, row)
    nodes.replace(product, row)


def _is_rms_norm(square: Pointwise, inverse: Pointwise, product: Pointwise, epsilon: float) -> bool:
    """Whether three formulas compute x scale / sqrt(x^2 + epsilon). They have many forms, so values are compared."""
    x, mean, scale = np.random.default_rng(0).uniform(0.5, 2.0, (3, 16))
    factor = inverse.formula.numpy(mean)
    known = {square.inputs[0]: x, inverse: factor}
    computed = product.formula.numpy(*(known.get(read, scale) for read in product.inputs))
    expected = x / np.sqrt(mean + epsilon) * (scale if len(product.inputs) > 2 else 1.0)
    return bool(np.allclose(square.formula.numpy(x), x * x, rtol=1e-9) and np.allclose(computed, expected, rtol=1e-9))


def _fold_scale(nodes: NodeList, layer: Layer) -> None:
    """Fold factors of the output channels (a constant) into the weights and the bias of a layer."""
    reader = nodes.only_reader(layer)
    if layer.epilogue.lines or not isinstance(reader, Pointwise) or len(reader.inputs) < 2 \
            or reader.shape != layer.shape:
        return
    at = reader.inputs.index(layer)
    first, rest = reader.formula.lines[0], reader.formula.lines[1:]
    if first[0] != "mul" or at not in first[1:] or any(at in line[1:] for line in rest):
        return
    other = first[1] if first[2] == at else first[2]
    if not isinstance(other, int) or other == at or any(other in line[1:] for line in rest):
        return
    factors = _channel_factors(layer, reader.inputs[other])
    if factors is None:
        return
    layer.scale(factors.reshape(-1))
    if not rest:
        nodes.replace(reader, layer)
        return
    kept = [number for number in range(len(reader.inputs)) if number != other]
    values: list[int | float] = [kept.index(number) if number != other else 0.0 for number in range(len(reader.inputs))]
    # the product's line is deleted; lines that read it read the layer
    table = [*values, values[at], *range(len(kept), len(kept) + len(rest))]
    reader.formula = Formula(len(kept), tuple(
        (name, *(table[value] if isinstance(value, int) else value for value in given)) for name, *given in rest))
    nodes.set_inputs(reader, [reader.inputs[number] for number in kept])


def _become_epilogue(nodes: NodeList, node: Pointwise) -> None:
    """Fuse a formula into the last of the layers that it reads."""
    layers = [read for read in node.inputs if isinstance(read, Layer) and read.shape == node.shape
              and nodes.only_reader(read) is node]
    for layer in sorted(layers, key=nodes.nodes.index, reverse=True):
        others = [read for read in node.inputs if read is not layer]
        if len(others) + len(layer.inputs) > 2 or any(other.shape != node.shape for other in others) \
                or len(layer.epilogue.lines) + len(node.formula.lines) > MOST_LINES:
            continue
        formula = layer.epilogue.then(node.formula, node.inputs.index(layer))
        new = Layer(node.shape, [*layer.inputs, *others], layer.work, layer.unscaled, layer.bias, formula,
                    factors=layer.factors, name=layer.name, origin=layer.origin)
        nodes.insert_before(node, new)
        nodes.replace(node, new)
        return


def _fuse_formula(nodes: NodeList, product: Product) -> None:
    """Fuse the formula that is the only reader of a product, and reads nothing else, into the product."""
    reader = nodes.only_reader(product)
    if isinstance(reader, Pointwise) and reader.inputs == [product] and reader.shape == product.shape:
        new = Product(product.shape, product.inputs, reader.formula, name=product.name, origin=product.origin)
        nodes.insert_before(product, new)
        nodes.replace(reader, new)


def _fuse_factors(nodes: NodeList, layer: Layer) -> None:
    """Let a 1x1 convolution multiply its weights by the factors of x's channels, where these are fewer than x's pixels.

    Squeeze and excitation computes such factors. One image alone has the same factors for all pixels.
    """
    product = layer.inputs[0]
    if layer.work.type != "conv2d" or not isinstance(product, Pointwise) or nodes.only_reader(product) is not layer \
            or product.formula not in (SCALE, Formula.of("mul", 1, 0)):
        return
    n, c, high, wide = product.shape
    factors = [read for read in product.inputs if read.shape == (1, c, 1, 1)]
    sizes = [layer.work.size(name) for name in ("r", "s", "groups")]
    if n > 1 or sizes != [1, 1, 1] or len(factors) != 1 or layer.work.size("k") > high * wide:
        return
    x = product.inputs[1 - product.inputs.index(factors[0])]
    if x.shape == product.shape:
        layer.scaled = product
        nodes.set_inputs(layer, [x, *layer.inputs[1:], *factors])


def reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    """The node under another shape of as many elements; numbers without axes stay as they are."""
    if node.shape in ((), shape):
        return node
    source = node.shape
    return Rearranged(shape, [node], lambda view: view.reshaped(shape), True, lambda view: view.reshaped(source))


def _can_join(node: Pointwise, reader: Pointwise) -> bool:
    operands = len({*node.inputs, *reader.inputs}) - 1
    return operands <= MOST_OPERANDS and len(node.formula.lines) + len(reader.formula.lines) <= MOST_LINES


def _channel_factors(layer: Layer, scale: Node) -> NDArray[np.float32] | None:
    """The factor of each output channel, where a constant holds them and nothing else."""
    if not isinstance(scale, Constant):
        return None
    axis = 1 if layer.work.type == "conv2d" else len(layer.shape) - 1
    channels = layer.shape[axis]
    expected = (channels, *[1] * (len(layer.shape) - 1 - axis))
    own = (1,) * (len(expected) - len(scale.shape)) + scale.shape
    if scale.array.size != channels or own[-len(expected):] != expected:
        return None
    return scale.array.reshape(-1)


def without_doubles(formula: Formula, inputs: Sequence[Node]) -> tuple[Formula, list[Node]]:
    """The formula with equal operands read once."""
    distinct = list(dict.fromkeys(inputs))
    if len(distinct) == len(inputs):
        return formula, distinct
    return renumbered(formula, len(distinct), [distinct.index(read) for read in inputs]), distinct


def renumbered(formula: Formula, operands: int, values: Sequence[int | float]) -> Formula:
    """The formula with `operands` operands, in which `values` stand for its present ones: numbers or constants."""
    table = [*values, *range(operands, operands + len(formula.lines))]
    return Formula(operands, tuple(
        (name, *(table[value] if isinstance(value, int) else value for value in given))
        for name, *given in formula.lines))
