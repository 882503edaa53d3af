"""Lowering: translates an exported graph into the nodes of a network, operation by operation.

The graph is functional (`ExportedProgram.run_decompositions({})`), its constants are folded, and its values are fp32 or
bf16; which of them a value is stored as is decided later (`plan/precision.py`).
An operation that cannot be translated raises UnknownOperationError, whose text is the reason; such operations remain
PyTorch's (`seqtune.networks.lowering.partition`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from seqtune.kernels.llvm.text.elements import Element

from ..nodes import Constant, Input, Layer, Node, Rearranged, indices_view
from ..passes.rewriting import reshaped
from ..plan.precision import NAMES
from ..steps.view import View


class UnknownOperationError(Exception):
    """An operation that has no translation; the message says why, for reports."""


Maker = Callable[["Lowering", fx.Node], Any]


@dataclass(frozen=True, slots=True)
class SpreadLayer:
    """A layer whose output channels become pixels; `channels` maps numbers of the result's channels to the layer's."""

    layer: Layer
    channels: Callable[[Tensor], Tensor]


class Lowering:
    """The values of a graph translated so far."""

    def __init__(self, module: fx.GraphModule, makers: Mapping[Any, Maker]) -> None:
        self.module = module
        self._makers = makers
        self.nodes: list[Node] = []
        self.inputs: list[Input] = []
        self.values: dict[fx.Node, Any] = {}  # a Node, a tuple of them, or a Tensor of a constant
        self.spread: dict[Node, SpreadLayer] = {}  # images whose pixels were a layer's channels

    def translate(self, node: fx.Node) -> None:
        """Translate one operation. Raises UnknownOperationError and adds nothing if that is impossible."""
        if node.op == "get_attr":
            self.values[node] = operator.attrgetter(str(node.target))(self.module)
        elif node.op == "placeholder":
            self.values[node] = self.input(node)
        elif node.target is operator.getitem:
            values, index = node.args
            assert isinstance(values, fx.Node)
            parts = self.values.get(values)
            if not isinstance(parts, tuple) or not isinstance(index, int) or index >= len(parts):
                raise UnknownOperationError("a result that is not translated")
            self.values[node] = parts[index]
        elif node.op == "call_function":
            maker = self._makers.get(node.target)
            if maker is None:
                raise UnknownOperationError(f"{short_name(node)} has no translation")
            for read in node.all_input_nodes:
                if read not in self.values:
                    raise UnknownOperationError(f"{short_name(node)} reads a value that is not translated")
            count = len(self.nodes)
            try:
                self.values[node] = maker(self, node)
            except UnknownOperationError:
                del self.nodes[count:]
                raise
            parts = self.values[node]
            if isinstance(parts, tuple) and not all(reader.args[1] in range(len(parts)) for reader in node.users):
                del self.nodes[count:], self.values[node]
                raise UnknownOperationError(f"a result of {short_name(node)} has no translation")
            for new in self.nodes[count:]:
                new.name, new.origin = short_name(node), node.name

    def input(self, node: fx.Node) -> Input:
        """Make the input for a value that comes from outside: an fp32 or bf16 tensor, or indices in int64.

        Raises UnknownOperationError for other values.
        """
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or value.dtype not in (*NAMES, torch.int64) \
                or value.device.type != "cpu" or value.layout != torch.strided:
            raise UnknownOperationError(f"{node.name} is no fp32 or bf16 tensor on the CPU")
        shape = static(value.shape, node)
        operand = Input(shape, [], len(self.inputs), static(value.stride(), node), value.dtype == torch.int64,
                        name=node.name, element=Element(NAMES.get(value.dtype, "fp32")))
        self.inputs.append(operand)
        self.nodes.append(operand)
        return operand

    def add(self, node: Node) -> Node:
        """Append a node and return it. Raises UnknownOperationError for a value without elements: it has no memory."""
        if 0 in node.shape:
            raise UnknownOperationError("a value without elements")
        self.nodes.append(node)
        return node

    def add_view(self, node: Node, shape: Sequence[int], transform: Callable[[View], View | None]) -> Node:
        """Append another view of a node and return it."""
        return self.add(Rearranged(tuple(shape), [node], transform))

    def add_reshaped(self, node: Node, shape: Sequence[int]) -> Node:
        """Append the node under another shape of as many elements and return it; a node of that shape is returned."""
        whole = tuple(shape)
        if not node.shape and whole:
            return self.add_view(node, whole, lambda view: view.reshaped(whole))
        result = reshaped(node, whole)
        return node if result is node else self.add(result)

    def add_expanded(self, node: Node, shape: Sequence[int]) -> Node:
        """Append the node repeated along axes of size 1 and new first axes; a node of that shape is returned."""
        whole = tuple(shape)
        return node if node.shape == whole else self.add_view(node, whole, lambda view: view.expanded(whole))

    def add_slice(self, node: Node, axis: int, begin: int, end: int, step: int = 1) -> Node:
        """Append the elements begin, begin + step, ... before `end` of an axis and return them."""
        shape = (*node.shape[:axis], -(-(end - begin) // step), *node.shape[axis + 1:])
        return self.add_view(node, shape, lambda view: view.sliced(axis, begin, end, step))

    def add_permuted(self, node: Node, order: Sequence[int]) -> Node:
        """Append the node with its axes in another order and return it; axis i of the result is axis order[i]."""
        return self.add_view(node, [node.shape[axis] for axis in order], lambda view: view.permuted(order))

    def value(self, argument: Any) -> Node:
        """The node of an argument of an operation: a tensor of floats. Numbers and constants become Constants."""
        if isinstance(argument, fx.Node):
            argument = self.values[argument]
        if isinstance(argument, Node):
            if indices_view(argument) is not None:
                raise UnknownOperationError("it reads whole numbers")
            return argument
        if isinstance(argument, int | float):
            argument = torch.tensor(float(argument))
        if not isinstance(argument, Tensor) or argument.dtype not in NAMES:
            raise UnknownOperationError(f"it reads a {getattr(argument, 'dtype', type(argument).__name__)}")
        if not argument.numel():
            raise UnknownOperationError("it reads a tensor without elements")
        array = argument.detach().float().contiguous().numpy()
        return self.add(Constant(tuple(array.shape), [], array))

    def indices(self, argument: Any) -> Node | None:
        """The node of an argument that holds whole numbers; None for others."""
        node = self.values.get(argument)
        return node if isinstance(node, Node) and indices_view(node) is not None else None

    def constant(self, argument: Any) -> Tensor | None:
        """A constant argument as an fp32 tensor, None for None. Raises UnknownOperationError for other values."""
        if isinstance(argument, fx.Node):
            argument = self.values[argument]
        if argument is None or (isinstance(argument, Tensor) and argument.dtype in NAMES):
            return None if argument is None else argument.detach().float()
        raise UnknownOperationError("its weights are computed, or neither fp32 nor bf16")


def arguments(node: fx.Node) -> dict[str, Any]:
    """The arguments of an operation by the names of its schema; missing ones have their defaults."""
    schema = node.target._schema.arguments  # type: ignore[union-attr]
    given = dict(zip((argument.name for argument in schema), node.args, strict=False)) | dict(node.kwargs)
    return {argument.name: given.get(argument.name, argument.default_value if argument.has_default_value() else None)
            for argument in schema}


def shape_of(node: fx.Node, dtypes: Collection[torch.dtype] = tuple(NAMES)) -> tuple[int, ...]:
    """The shape of a result. Raises UnknownOperationError if it has another type or is not known before the run."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.dtype not in dtypes:
        raise UnknownOperationError(f"{short_name(node)} computes a result of another type")
    return static(value.shape, node)


def axis_of(dim: int, count: int) -> int:
    """The axis, from 0, that an argument names among `count`. Raises UnknownOperationError for a number without axes.

    PyTorch lets such a number have an axis 0.
    """
    if not count:
        raise UnknownOperationError("an axis of a number without axes")
    return dim % count


def axes_of(dims: Any, count: int) -> tuple[int, ...]:
    """The axes of an argument among `count`, in order; one number is one axis, and none or an empty list means all.

    Raises UnknownOperationError like `axis_of`.
    """
    given = range(count) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
    return tuple(sorted(axis_of(axis, count) for axis in given))


def one_row(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of sequences, (n, channels, length), as images of one row."""
    n, channels, length = shape
    return n, channels, 1, length


def static(sizes: Sequence[Any], node: fx.Node) -> tuple[int, ...]:
    """Sizes as whole numbers. Raises UnknownOperationError if one is not known before the run, or 0."""
    if not all(isinstance(size, int) for size in sizes):
        raise UnknownOperationError(f"{short_name(node)} has a shape that is not known before the run")
    if 0 in sizes:
        raise UnknownOperationError(f"{short_name(node)} has no elements")
    return tuple(sizes)


def short_name(node: fx.Node) -> str:
    """The name of an operation without its overload: `aten.relu`."""
    return str(node.target).rsplit(".", 1)[0] if str(node.target).startswith("aten.") else str(node.target)
