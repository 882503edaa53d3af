"""Layers as PyTorch computes them at its best: weights packed before where oneDNN takes them, images in NHWC."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.kernels.problem import Problem

LAST = torch.channels_last


class KeptConvolution(nn.Module):
    """A convolution computed by PyTorch: by oneDNN with packed weights where `packed`, else by `conv2d`."""

    def __init__(self, problem: Problem, weights: Tensor, bias: Tensor | None, packed: bool) -> None:
        super().__init__()
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
        """y, channels_last."""
        x = x.contiguous(memory_format=LAST)
        if self.packed:
            y: Tensor = torch.ops.mkldnn._convolution_pointwise(x, self.weights, self.bias, *self._options)
            return y
        y = functional.conv2d(x, self.weights, self.bias, *self._options)
        return y.relu_() if self.relu else y


def _reorder(*arguments: Any) -> Tensor:
    packed: Tensor = torch._C._nn.mkldnn_reorder_conv2d_weight(*arguments)
    return packed


class KeptProduct(nn.Module):
    """A linear layer computed by PyTorch, with packed weights or without."""

    def __init__(self, problem: Problem, weights: Tensor, bias: Tensor | None, packed: bool) -> None:
        super().__init__()
        self.relu, self.bias, self.packed = problem["activation"] == "relu", bias, packed
        self.weights = torch.ops.mkldnn._reorder_linear_weight(weights, problem.size("m")) if packed \
            else weights

    def forward(self, x: Tensor) -> Tensor:
        """y."""
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self.weights, self.bias, "relu" if self.relu else "none", [], "")
            return y
        y = functional.linear(x, self.weights, self.bias)
        return y.relu_() if self.relu else y
