"""Graph: finds the layers of an exported model that kernels can compute, and replaces them.

A layer is a convolution with the batch normalisation and the ReLU that alone read its result, or a linear layer with
its ReLU; the normalisation is folded into the weights. Weights must be constants. Shapes are those of the example.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import GraphModule, Node

from seqtune.kernels.operations import conv2d, gemm
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.llvm.bound_kernels import KernelBinder

from ..errors import ProblemError
from .modules import LAST, KeptConvolution, Step, pool, sum_of_two

aten = torch.ops.aten
RELU = (aten.relu.default, aten.relu_.default)
SUMS = (aten.add.Tensor, aten.add_.Tensor)


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """The operations from `first` to `last`, which one kernel can compute."""

    first: Node
    last: Node
    problem: Problem
    weights: Tensor  # fp32, (k, c // groups, r, s) or (n, k)
    bias: Tensor | None

    @property
    def input(self) -> Node:
        """The node that the layer reads; it changes when the layer before is replaced."""
        node = self.first.args[0]
        assert isinstance(node, Node)
        return node

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        return tuple(self.last.meta["val"].shape)


def find_layers(module: GraphModule) -> list[Layer]:
    """The layers of an exported graph that a problem describes, in order."""
    layers = []
    for node in module.graph.nodes:
        make = _MAKERS.get(node.target) if node.op == "call_function" else None
        layer = make(module, node) if make is not None else None
        if layer is not None:
            layers.append(layer)
    return layers


def _convolution(module: GraphModule, node: Node) -> Layer | None:
    x, weight, bias, stride, padding, dilation, groups = _filled(
        node, (None, None, None, (1, 1), (0, 0), (1, 1), 1))
    constants = _constants(module, weight, bias)
    shape = _shape(x, 4)
    if constants is None or constants[0] is None or shape is None:
        return None
    weights, first_bias = constants
    last = node
    after = _only_user(last, (aten.batch_norm.default,))
    folded = weights, first_bias
    if after is not None:
        normalised = _folded(module, after, *folded)
        if normalised is not None:
            folded, last = normalised, after
    relu = _only_user(last, RELU)
    try:
        features = conv2d.layer_features(
            shape, weights.shape[0], tuple(weights.shape[2:]), _pair(stride),
            padding if isinstance(padding, str) else _pair(padding), _pair(dilation), groups)
        problem = Problem.make("conv2d", **features, layout="NHWC", bias="no" if folded[1] is None else "yes",
                               activation="none" if relu is None else "relu")
    except ProblemError:
        return None
    return Layer(node, relu or last, problem, folded[0], folded[1])


def _linear(module: GraphModule, node: Node) -> Layer | None:
    x, weight, bias = _filled(node, (None, None, None))
    constants = _constants(module, weight, bias)
    shape = _shape(x, None)
    if constants is None or constants[0] is None or shape is None:
        return None
    relu = _only_user(node, RELU)
    try:
        problem = Problem.make("gemm", **gemm.layer_features(shape, *constants[0].shape),
                               bias="no" if constants[1] is None else "yes",
                               activation="none" if relu is None else "relu")
    except ProblemError:
        return None
    return Layer(node, relu or node, problem, *constants)


_MAKERS: dict[Any, Callable[[GraphModule, Node], Layer | None]] = {
    aten.conv2d.default: _convolution, aten.conv2d.padding: _convolution, aten.linear.default: _linear}


def _filled(node: Node, defaults: Sequence[Any]) -> list[Any]:
    names = [argument.name for argument in node.target._schema.arguments]  # type: ignore[union-attr]
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    return [given.get(name, default) for name, default in zip(names, defaults, strict=False)]


def _pair(value: Any) -> tuple[int, int]:
    values = [value] if isinstance(value, int) else list(value)
    return int(values[0]), int(values[-1])


def _shape(node: Any, axes: int | None) -> tuple[int, ...] | None:
    """The static shape of an fp32 value of `axes` axes (None: any number); None for other values."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, Tensor) or value.dtype != torch.float32 or (axes is not None and value.dim() != axes):
        return None
    shape = tuple(value.shape)
    return shape if shape and all(isinstance(size, int) and size > 0 for size in shape) else None


def _constants(module: GraphModule, *nodes: Any) -> tuple[Any, ...] | None:
    """The constant fp32 tensors behind nodes (None for None); None where one is computed or of another type."""
    found: list[Tensor | None] = []
    for node in nodes:
        if node is None:
            found.append(None)
            continue
        if not isinstance(node, Node) or node.op != "get_attr":
            return None
        value = operator.attrgetter(str(node.target))(module)
        if not isinstance(value, Tensor) or value.dtype != torch.float32:
            return None
        found.append(value.detach())
    return tuple(found)


def _only_user(node: Node, targets: Sequence[Any]) -> Node | None:
    """The only reader of a node, where it is one of the operations and reads the node as first argument; else None."""
    users = list(node.users)
    if len(users) == 1 and users[0].target in targets and users[0].args[0] is node:
        return users[0]
    return None


def _folded(module: GraphModule, node: Node, weights: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor] | None:
    """Weights and bias with a batch normalisation folded in; None where that trains or is not constant."""
    _, scale, shift, mean, variance, training, _, epsilon, _ = _filled(node, [None] * 9)
    constants = _constants(module, scale, shift, mean, variance)
    if training or constants is None or constants[2] is None or constants[3] is None:
        return None
    gain, offset = (torch.tensor(default) if one is None else one.double()
                    for one, default in zip(constants, (1.0, 0.0), strict=False))
    factor = torch.rsqrt(constants[3].double() + epsilon) * gain
    moved = ((0.0 if bias is None else bias.double()) - constants[2].double()) * factor + offset
    return (weights.double() * factor[:, None, None, None]).float(), moved.float()


def replace_layer(module: GraphModule, layer: Layer, by: nn.Module) -> None:
    """Replace a layer by a module."""
    chain = [layer.first]
    while chain[-1] is not layer.last:
        chain.append(next(iter(chain[-1].users)))
    _stand_in(module, chain, by, (layer.input,))


def replace_glue(module: GraphModule, binder: KernelBinder) -> None:
    """Replace sums (with a fused ReLU) and max-pools between layers by our own loops."""
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in SUMS:
            _replace_sum(module, binder, node)
        elif node.op == "call_function" and node.target is aten.max_pool2d.default:
            _replace_pool(module, binder, node)


def keep_strides(module: GraphModule) -> None:
    """Keep the strides that operations of the model rely on, although tensors are channels_last here.

    Views of them copy where they must, and its results are contiguous where they were: others may view those.
    """
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target is aten.view.default:
            node.target = aten.reshape.default
        elif node.op == "output":
            for result in node.all_input_nodes:
                if _shape(result, 4) is not None and result.meta["val"].is_contiguous():
                    with module.graph.inserting_before(node):
                        node.replace_input_with(result, module.graph.call_function(aten.contiguous.default, (result,)))


def _replace_sum(module: GraphModule, binder: KernelBinder, node: Node) -> None:
    x, other = node.args[:2]
    shape = _shape(x, 4)
    if shape is None or shape != _shape(other, 4) or node.kwargs or x is other:
        return
    if not _is_image(module, x) and not _is_image(module, other):
        return
    assert isinstance(x, Node)
    own = x.op == "call_module" and len(x.users) == 1  # fresh memory that nothing else reads
    if node.target is aten.add_.Tensor and not own:
        return
    relu = _only_user(node, RELU)
    _stand_in(module, [node] if relu is None else [node, relu], sum_of_two(binder, shape, relu is not None, own),
              (x, other))


def _replace_pool(module: GraphModule, binder: KernelBinder, node: Node) -> None:
    x, filter, stride, pad, dilation, ceil = _filled(node, (None, None, [], (0, 0), (1, 1), False))
    shape, out = _shape(x, 4), _shape(node, 4)
    if shape is None or out is None or ceil or _pair(dilation) != (1, 1) or not _is_image(module, x):
        return
    lanes = next((lanes for lanes in (16, 8, 4) if lanes <= binder.device.vector_floats and shape[1] % lanes == 0), 0)
    if lanes:
        _stand_in(module, [node], pool(binder, shape, out, _pair(filter), _pair(stride or filter), _pair(pad), lanes),
                  (x,))


def _is_image(module: GraphModule, node: Any) -> bool:
    """Whether one of our modules computes the node in channels_last; other results may need a conversion."""
    made_by = module.get_submodule(str(node.target)) if isinstance(node, Node) and node.op == "call_module" else None
    return isinstance(made_by, KeptConvolution) or (isinstance(made_by, Step) and made_by.form == LAST)


def _stand_in(module: GraphModule, chain: Sequence[Node], by: nn.Module, operands: tuple[Any, ...]) -> None:
    """Replace a chain of operations by a call of a module; only the last operation is read outside the chain."""
    name = f"seqtune_{chain[0].name}"
    module.add_submodule(name, by)
    with module.graph.inserting_before(chain[-1]):
        new = module.graph.call_module(name, operands)
    new.meta = dict(chain[-1].meta)
    chain[-1].replace_all_uses_with(new)
    for node in reversed(chain):
        module.graph.erase_node(node)


def constants_of(module: GraphModule) -> Iterator[Node]:
    """Constants that nothing reads."""
    return (node for node in module.graph.nodes if node.op == "get_attr" and not node.users)
