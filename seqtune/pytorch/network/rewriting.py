"""Rewriting: changes of a network that keep its results: pointwise chains become one formula, layers take epilogues.

Each pass returns a new list of nodes in an order of execution. A node is fused into its only reader only if it is no
result of the network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seqtune.kernels.llvm.steps.formula import MOST_LINES, Formula

from .nodes import Constant, Layer, Node, Pointwise, Rearranged, users_of

MOST_OPERANDS = 6  # of a fused formula: each takes a pointer and a stride in the loop


@dataclass(slots=True)
class Rewriting:
    """The nodes of a network while passes change them; `results` are kept."""

    nodes: list[Node]
    results: list[Node]

    def rewrite(self) -> None:
        """Apply all passes until none changes anything."""
        self._drop_unread()
        while self._hoist_reshapes() or self._join_pointwise() or self._fold_scales() or self._take_epilogues():
            self._drop_unread()

    def _drop_unread(self) -> None:
        read: set[Node] = set()
        waiting = list(self.results)
        while waiting:
            node = waiting.pop()
            if node not in read:
                read.add(node)
                waiting.extend(node.inputs)
        self.nodes = [node for node in self.nodes if node in read]

    def _single_user(self, users: dict[Node, list[Node]], node: Node) -> Node | None:
        return users[node][0] if len(users[node]) == 1 and node not in self.results else None

    def _replace(self, old: Node, new: Node) -> None:
        for node in self.nodes:
            if node is not new:
                node.inputs = [new if read is old else read for read in node.inputs]
        self.results = [new if result is old else result for result in self.results]

    def _hoist_reshapes(self) -> bool:
        """Turn a formula of a reshaped layer into a reshape of the formula, so that the layer can take it."""
        users = users_of(self.nodes)
        changed = False
        for node in list(self.nodes):
            if not isinstance(node, Pointwise):
                continue
            for index, read in enumerate(node.inputs):
                if not (isinstance(read, Rearranged) and read.reshapes and read.shape == node.shape
                        and self._single_user(users, read) is node):
                    continue
                source = read.inputs[0]
                if not (isinstance(source, Layer) and self._single_user(users, source) is read) \
                        or any(other.shape not in (node.shape, ()) for other in node.inputs):
                    continue
                self._hoist(node, index, source)
                changed = True
                break
            if changed:
                break  # the users have changed
        return changed

    def _hoist(self, node: Pointwise, index: int, source: Layer) -> None:
        at = self.nodes.index(node)
        inputs: list[Node] = []
        for number, other in enumerate(node.inputs):
            inputs.append(source if number == index else reshaped(other, source.shape))
        inner = Pointwise(source.shape, inputs, node.formula, name=node.name)
        outer = reshaped(inner, node.shape)
        self.nodes[at:at + 1] = [*(read for read in inputs if read not in self.nodes), inner, outer]
        self._replace(node, outer)

    def _join_pointwise(self) -> bool:
        users = users_of(self.nodes)
        for node in self.nodes:
            if not isinstance(node, Pointwise):
                continue
            reader = self._single_user(users, node)
            if isinstance(reader, Pointwise) and reader.shape == node.shape and _can_join(node, reader):
                index = reader.inputs.index(node)
                formula = node.formula.then(reader.formula, index)
                inputs = [*node.inputs, *(read for number, read in enumerate(reader.inputs) if number != index)]
                reader.formula, reader.inputs = without_doubles(formula, inputs)
                return True
        return False

    def _fold_scales(self) -> bool:
        """Fold factors of the output channels (a constant) into the weights and the bias of a layer."""
        users = users_of(self.nodes)
        for node in self.nodes:
            if not isinstance(node, Layer) or node.epilogue.lines:
                continue
            reader = self._single_user(users, node)
            if not isinstance(reader, Pointwise) or len(reader.inputs) != 2 or reader.shape != node.shape:
                continue
            layer = reader.inputs.index(node)
            scale = reader.inputs[1 - layer]
            factors = _channel_factors(node, scale)
            if factors is None or reader.formula.lines not in ((("mul", 0, 1),), (("mul", 1, 0),)):
                continue
            shape = (-1, *[1] * (node.weights.ndim - 1))
            node.weights = (node.weights * factors.reshape(shape)).astype(np.float32)
            node.bias = None if node.bias is None else (node.bias * factors).astype(np.float32)
            self._replace(reader, node)
            return True
        return False

    def _take_epilogues(self) -> bool:
        users = users_of(self.nodes)
        order = {node: number for number, node in enumerate(self.nodes)}
        for node in self.nodes:
            if not isinstance(node, Pointwise):
                continue
            layers = [read for read in node.inputs if isinstance(read, Layer) and read.shape == node.shape
                      and self._single_user(users, read) is node]
            for layer in sorted(layers, key=order.__getitem__, reverse=True):
                if self._take(layer, node):
                    return True
        return False

    def _take(self, layer: Layer, node: Pointwise) -> bool:
        others = [read for read in node.inputs if read is not layer]
        if len(others) + len(layer.inputs) > 2 or any(other.shape != node.shape for other in others):
            return False
        index = node.inputs.index(layer)
        if len(layer.epilogue.lines) + len(node.formula.lines) > MOST_LINES:
            return False
        formula = layer.epilogue.then(node.formula, index)
        new = Layer(node.shape, [*layer.inputs, *others], layer.work, layer.weights, layer.bias, formula,
                    name=layer.name)
        self.nodes[self.nodes.index(node)] = new
        self.nodes.remove(layer)
        self._replace(node, new)
        return True


def reshaped(node: Node, shape: tuple[int, ...]) -> Node:
    """The node under another shape of as many elements; numbers without axes stay as they are."""
    if node.shape == () or node.shape == shape:
        return node
    return Rearranged(shape, [node], lambda view: view.reshaped(shape), reshapes=True)


def _can_join(node: Pointwise, reader: Pointwise) -> bool:
    operands = len({*node.inputs, *reader.inputs}) - 1
    return operands <= MOST_OPERANDS and len(node.formula.lines) + len(reader.formula.lines) <= MOST_LINES


def _channel_factors(layer: Layer, scale: Node) -> np.ndarray | None:
    """The factor of each output channel, where a constant holds them and nothing else."""
    if not isinstance(scale, Constant):
        return None
    axis = 1 if layer.work.type == "conv2d" else len(layer.shape) - 1
    channels = layer.shape[axis]
    expected = (channels, *[1] * (len(layer.shape) - 1 - axis))
    if scale.array.size != channels or scale.shape[-len(expected):] != expected[-len(scale.shape):]:
        return None
    return scale.array.reshape(-1)


def without_doubles(formula: Formula, inputs: Sequence[Node]) -> tuple[Formula, list[Node]]:
    """The formula with equal operands read once."""
    distinct = list(dict.fromkeys(inputs))
    if len(distinct) == len(inputs):
        return formula, distinct
    numbers = [distinct.index(read) for read in inputs]
    return renumbered(formula, len(distinct), numbers), distinct


def renumbered(formula: Formula, operands: int, values: Sequence[int | float]) -> Formula:
    """The formula with `operands` operands, in which `values` stand for its present ones: numbers or constants."""
    table = [*values, *range(operands, operands + len(formula.lines))]
    return Formula(operands, tuple(
        (name, *(table[value] if isinstance(value, int) else value for value in given))
        for name, *given in formula.lines))
