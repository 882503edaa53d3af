"""Node: one value of a network and the operation that computes it, in fp32; shapes are PyTorch's.

A network is a list of nodes in an order of execution. Memory comes later (`program/assembly.py`): a node says only
what is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.llvm.text.elements import FP32, Element
from seqtune.kernels.llvm.text.formula import IDENTITY, Formula
from seqtune.kernels.problem import Problem

from .steps.view import View

Shape = tuple[int, ...]
Floats = NDArray[np.float32]


@dataclass(eq=False, slots=True)
class Node:
    """A value; the classes below say how it is computed.

    `element` is the type in which its numbers are stored. `name` is PyTorch's operation, for reports, and `origin` the
    name of its node in the exported graph.
    """

    shape: Shape
    inputs: list[Node]
    element: Element = field(default=FP32, kw_only=True)
    name: str = field(default="", kw_only=True)
    origin: str = field(default="", kw_only=True)


@dataclass(eq=False, slots=True)
class Input(Node):
    """An operand of the network: number `index` of its call. `indices` means int64 numbers instead of floats."""

    index: int
    strides: Shape
    indices: bool = False


@dataclass(eq=False, slots=True)
class Constant(Node):
    """A value that is known: part of the weights, or computed from them."""

    array: Floats


@dataclass(eq=False, slots=True)
class Layer(Node):
    """A convolution or matrix product with constant weights.

    Inputs are x and the epilogue's other operand if it has one. `scaled` is the product of x and factors of its
    channels that was fused into the layer; its factors, (1, c, 1, 1), are the last input then.
    """

    work: Problem  # without bias and activation; its dtype is the element of x
    unscaled: Floats  # (k, c // groups, r, s) or (n, k)
    bias: Floats | None
    epilogue: Formula = IDENTITY
    scaled: Pointwise | None = None
    factors: NDArray[np.float64] | None = None  # one for each output channel, (k,) or (n,)

    def scale(self, factors: NDArray[Any]) -> None:
        """Multiply the weights and the bias of each output channel."""
        self.factors = factors.astype(np.float64) if self.factors is None else self.factors * factors
        self.bias = None if self.bias is None else (self.bias * factors).astype(np.float32)

    @property
    def weights(self) -> Floats:
        """The weights with their factors, computed at each access: a graph is lowered more often than it is packed."""
        if self.factors is None:
            return self.unscaled
        shape = (-1, *[1] * (self.unscaled.ndim - 1))
        result = np.empty_like(self.unscaled)
        np.multiply(self.unscaled, self.factors.reshape(shape), out=result, casting="same_kind")
        return result

    @property
    def others(self) -> list[Node]:
        """The other operand of the epilogue, if it has one."""
        return self.inputs[1:self.epilogue.operands]

    @property
    def problem(self) -> Problem:
        """The problem that is predicted; every epilogue that computes something counts as a ReLU."""
        return Problem.make(self.work.type, **{
            **dict(self.work), "bias": "no" if self.bias is None else "yes",
            "activation": "relu" if self.epilogue.lines else "none"})


@dataclass(eq=False, slots=True)
class Pointwise(Node):
    """A formula of the inputs, element by element; inputs of other shapes are broadcast."""

    formula: Formula


@dataclass(eq=False, slots=True)
class Rearranged(Node):
    """Another view of the input's memory. `transform` returns None where the memory would have to be copied.

    `reshapes` says that the elements keep their order, `inverse` leads back where the elements stay the same.
    """

    transform: Callable[[View], View | None]
    reshapes: bool = False
    inverse: Callable[[View], View | None] | None = None


def indices_view(node: Node) -> View | None:
    """The view, in whole numbers, of an operand of indices or of its reshapes; None for other nodes."""
    if isinstance(node, Input):
        return View(node.shape, node.strides) if node.indices else None
    if not (isinstance(node, Rearranged) and node.reshapes):
        return None
    view = indices_view(node.inputs[0])
    return None if view is None else node.transform(view)


@dataclass(eq=False, slots=True)
class Concatenation(Node):
    """The inputs one after the other along an axis."""

    axis: int


@dataclass(eq=False, slots=True)
class Padding(Node):
    """The input with a border of one number: `low` and `high` elements before and after it along every axis."""

    low: Shape
    high: Shape
    number: float


@dataclass(eq=False, slots=True)
class RowOperation(Node):
    """A normalisation of every row, the last axis: inputs are x and the constants scale and shift where there are any.

    `kind` is softmax, log_softmax, layer_norm or rms_norm.
    """

    kind: str
    epsilon: float = 0.0


@dataclass(eq=False, slots=True)
class Reduction(Node):
    """`kind` (sum, mean, max, min) of a formula of the inputs over `axes`; the axes stay with size 1 if `keep`.

    The first input has the shape of what is reduced; the others are broadcast to it.
    """

    kind: str
    axes: Shape
    keep: bool
    formula: Formula = IDENTITY


@dataclass(eq=False, slots=True)
class Pool(Node):
    """The largest or the mean value of every window of an image; `kind` is max or average."""

    kind: str
    filter: tuple[int, int]
    stride: tuple[int, int]
    pad: tuple[int, int]
    dilation: tuple[int, int] = (1, 1)
    count_pad: bool = True  # average: padding counts as zeros
    divisor: int | None = None


@dataclass(eq=False, slots=True)
class Gather(Node):
    """Rows of a table (the second input, a constant), chosen by the indices (the first input)."""


@dataclass(eq=False, slots=True)
class MovedRows(Node):
    """Rows of the first input by their `numbers`, through a formula whose further operands are the other inputs."""

    numbers: NDArray[np.int64]  # the shape without its last axis
    formula: Formula = IDENTITY


@dataclass(eq=False, slots=True)
class Product(Node):
    """A product of two computed matrices for each index of the leading axes, and a formula of it.

    The inputs are (*lead, m, k) and (*lead, k, n); leading axes that are missing or of size 1 are repeated.
    """

    epilogue: Formula = IDENTITY

    @property
    def problem(self) -> Problem:
        """The problem that is predicted: one of the matrices."""
        return Problem.make("gemm", m=self.shape[-2], n=self.shape[-1], k=self.inputs[0].shape[-1],
                            activation="relu" if self.epilogue.lines else "none")


@dataclass(eq=False, slots=True)
class AttentionHeads(Node):
    """softmax(scale q k^T + mask) v; the inputs q, k, v are (batch, heads, length, size), a mask is broadcast."""

    scale: float
    causal: bool
    dtype: str = "fp32"  # type of the numbers that are multiplied: q, k, v and weights

    @property
    def problem(self) -> Problem:
        """The problem that is predicted."""
        (n, heads, length, size), keys = self.inputs[0].shape, self.inputs[1].shape
        return Problem.make(
            "attention", n=n, heads=heads, group=heads // keys[1], q_len=length, kv_len=keys[2], head_dim=size,
            value_dim=self.inputs[2].shape[3], causal="yes" if self.causal else "no", mask=self._mask(),
            layout="tokens", dtype=self.dtype)

    def _mask(self) -> str:
        """The kind of the mask by the axes along which it is not broadcast."""
        if len(self.inputs) == 3:
            return "none"
        heads, queries = ((1, 1, 1, *self.inputs[3].shape)[-3:-1])
        return "keys" if heads == queries == 1 else "scores"


Tuned = Layer | Product | AttentionHeads  # nodes whose kernels are predicted
