"""Modules that replace PyTorch's operations in an optimised graph. They read and write NHWC memory.

A tensor in PyTorch's channels_last format is NHWC memory, so a kernel runs on its address; tensors in another format
are converted first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from seqtune.kernels.llvm.network_operations import channels_last, max_pool, sums
from seqtune.kernels.problem import Problem
from seqtune.tuner.backends.llvm.bound_kernels import BoundKernel, KernelBinder

LAST = torch.channels_last
FEW_CHANNELS = 4  # PyTorch converts images of few channels to channels_last slowly


class ChannelsLast:
    """Converts tensors of one shape to channels_last."""

    def __init__(self, binder: KernelBinder, shape: Sequence[int]) -> None:
        n, c, h, w = shape
        self._shape = tuple(shape)
        self._call = binder.bind_source(*channels_last(n, c, h * w)) if c <= FEW_CHANNELS else None

    def __call__(self, x: Tensor) -> Tensor:
        """The tensor in NHWC memory; itself where it already is."""
        if x.is_contiguous(memory_format=LAST):
            return x
        if self._call is None or not x.is_contiguous():
            return x.contiguous(memory_format=LAST)
        y = torch.empty(self._shape, memory_format=LAST)
        self._call(x.data_ptr(), y.data_ptr())
        return y


class Step(nn.Module):
    """One kernel call in a graph: it reads one or two tensors, converted by `ready`, and writes one.

    `over` says that nothing else reads the first operand, so that the result may overwrite it.
    """

    def __init__(self, kernel: BoundKernel, shape: Sequence[int], ready: Callable[[Tensor], Tensor],
                 form: torch.memory_format = LAST, over: bool = False) -> None:
        super().__init__()
        self.kernel, self.shape, self.ready, self.form, self.over = kernel, tuple(shape), ready, form, over

    def new(self) -> Tensor:
        """New memory for the result."""
        return torch.empty(self.shape, memory_format=self.form)

    def forward(self, x: Tensor, other: Tensor | None = None) -> Tensor:
        """Run the kernel."""
        x, y = self.ready(x), self.new()
        if other is None:
            self.kernel(x.data_ptr(), y.data_ptr())
        else:
            other = self.ready(other)
            self.kernel.with_other(x.data_ptr(), other.data_ptr(), y.data_ptr())
        return y


def tuned_convolution(binder: KernelBinder, kernel: BoundKernel, problem: Problem) -> Step:
    """A convolution computed by a tuned kernel."""
    x, y = ([problem.size(name) for name in names] for names in (("n", "c", "h", "w"), ("n", "k", "out_h", "out_w")))
    return Step(kernel, y, ChannelsLast(binder, x))


def tuned_product(kernel: BoundKernel, shape: Sequence[int]) -> Step:
    """A linear layer computed by a tuned kernel."""
    return Step(kernel, shape, Tensor.contiguous, torch.contiguous_format)


def sum_of_two(binder: KernelBinder, shape: Sequence[int], relu: bool, over: bool) -> Step:
    """A residual sum, with ReLU if asked for."""
    kernel = binder.bind_source(*sums(math.prod(shape), binder.device.vector_floats, relu))
    return Step(kernel, shape, _last, over=over)


def pool(binder: KernelBinder, x: Sequence[int], y: Sequence[int], filter: tuple[int, int], stride: tuple[int, int],
         pad: tuple[int, int], lanes: int) -> Step:
    """Max-pooling without dilation."""
    kernel = binder.bind_source(*max_pool(x[0], x[1], x[2], x[3], y[2], y[3], filter, stride, pad, lanes))
    return Step(kernel, y, _last)


def _last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=LAST)


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
