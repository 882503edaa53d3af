"""PyTorch's layers in their fastest forms: weights packed in advance where oneDNN can, images in NHWC."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional

from seqtune.kernels.problem import Problem

from ..lowering.lowering import Lowering
from ..lowering.table import MAKERS
from ..nodes import Layer
from ..plan.precision import DTYPES

LAST = torch.channels_last
aten = torch.ops.aten


class PeerConvolution(nn.Module):
    """A convolution computed by PyTorch: by oneDNN with packed weights where `packed`, else by `conv2d`."""

    def __init__(self, problem: Problem, weights: Tensor, bias: Tensor | None, packed: bool) -> None:
        super().__init__()
        self.dtype = weights.dtype
        padding, stride, dilation = ([problem.size(f"{name}_h"), problem.size(f"{name}_w")]
                                     for name in ("pad", "stride", "dilation"))
        groups, self.relu = problem.size("groups"), problem["activation"] == "relu"
        self.bias = bias
        if packed:
            shape = [problem.size(name) for name in ("n", "c", "h", "w")]
            self.weights = _reorder(weights.to_mkldnn(), padding, stride, dilation, groups, shape)
            self._options: tuple[Any, ...] = (padding, stride, dilation, groups, "relu" if self.relu else "none", [],
                                              "")
        else:
            self.weights = weights.contiguous(memory_format=LAST)
            self._options = (stride, padding, dilation, groups)
        self.packed = packed

    def forward(self, x: Tensor) -> Tensor:
        """The result, in channels_last."""
        x = x.to(self.dtype).contiguous(memory_format=LAST)
        if self.packed:
            y: Tensor = torch.ops.mkldnn._convolution_pointwise(x, self.weights, self.bias, *self._options)
            return y
        y = functional.conv2d(x, self.weights, self.bias, *self._options)
        return y.relu_() if self.relu else y


def _reorder(*arguments: Any) -> Tensor:
    packed: Tensor = torch._C._nn.mkldnn_reorder_conv2d_weight(*arguments)
    return packed


class PeerProduct(nn.Module):
    """A linear layer computed by PyTorch, with packed weights or without."""

    def __init__(self, problem: Problem, weights: Tensor, bias: Tensor | None, packed: bool) -> None:
        super().__init__()
        self.dtype = weights.dtype
        self.relu, self.bias, self.packed = problem["activation"] == "relu", bias, packed
        self.weights = torch.ops.mkldnn._reorder_linear_weight(weights, problem.size("m")) if packed \
            else weights

    def forward(self, x: Tensor) -> Tensor:
        """The result."""
        x = x.to(self.dtype)
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self.weights, self.bias, "relu" if self.relu else "none", [], "")
            return y
        y = functional.linear(x, self.weights, self.bias)
        return y.relu_() if self.relu else y


class Converted(nn.Module):
    """A layer whose result is converted to another type."""

    def __init__(self, layer: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = layer, dtype

    def forward(self, x: Tensor) -> Tensor:
        """The result."""
        y: Tensor = self.layer(x)
        return y.to(self.dtype)


def fall_back(module: fx.GraphModule, node: fx.Node, precision: str = "fp32") -> fx.Node:
    """Let PyTorch compute a layer in its fastest form, in this precision; return the node that replaces the layer's.

    Attention is not changed.
    """
    lowering = Lowering(module, MAKERS)
    for read in node.all_input_nodes:
        lowering.values[read] = operator.attrgetter(str(read.target))(module) if read.op == "get_attr" \
            else lowering.input(read)
    lowering.translate(node)
    layer = lowering.values[node]
    if not isinstance(layer, Layer):
        return node
    layer.work = Problem.make(layer.work.type, **{**dict(layer.work), "dtype": precision})
    name = f"seqtune_kept_{node.name}"
    module.add_submodule(name, Converted(peer_forms(layer)[-1], node.meta["val"].dtype))
    with module.graph.inserting_before(node):
        call = module.graph.call_module(name, (node.args[1 if node.target is aten.addmm.default else 0],))
    value = node.meta["val"]
    call.meta = {**node.meta, "val": value.contiguous(memory_format=LAST) if value.dim() == 4 else value}
    node.replace_all_uses_with(call)
    module.graph.erase_node(node)
    return call


def peer_forms(layer: Layer) -> list[nn.Module]:
    """PyTorch's operation as users call it and, where oneDNN can, with packed weights."""
    kind: Any = PeerProduct if layer.work.type == "gemm" else PeerConvolution
    dtype = DTYPES[str(layer.work["dtype"])]
    weights = torch.from_numpy(layer.weights).to(dtype)
    bias = None if layer.bias is None else torch.from_numpy(layer.bias).to(dtype)
    forms: list[nn.Module] = [kind(layer.problem, weights, bias, packed=False)]
    try:
        packed: nn.Module = kind(layer.problem, weights, bias, packed=True)
        packed(torch.zeros(layer.inputs[0].shape, dtype=dtype))
        forms.append(packed)
    except (AttributeError, RuntimeError):  # a PyTorch without oneDNN, or a shape that oneDNN does not pack
        pass
    return forms
