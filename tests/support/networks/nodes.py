"""Small networks of nodes, without a model."""

from __future__ import annotations

import numpy as np

from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem
from seqtune.networks.nodes import Input, Layer, Node
from seqtune.networks.steps.view import View

RELU, ADD, PRODUCT = Formula.of_activation("relu"), Formula.of("add", 0, 1), Formula.of("mul", 0, 1)


def operand(*shape: int) -> Input:
    """A contiguous operand."""
    return Input(shape, [], 0, View.contiguous(shape).strides)


def layer(x: Node, outputs: int) -> Layer:
    """A linear layer of ones."""
    rows, size = x.shape
    return Layer((rows, outputs), [x], Problem.make("gemm", m=rows, n=outputs, k=size, trans_b="yes"),
                 np.ones((outputs, size), np.float32), np.ones(outputs, np.float32))


def convolution(x: Node, outputs: int, pad: int = 0) -> Layer:
    """A 1x1 convolution."""
    n, c, h, w = x.shape
    problem = Problem.make("conv2d", n=n, c=c, h=h, w=w, k=outputs, r=1, s=1, pad_h=pad, pad_w=pad, layout="NHWC")
    return Layer((n, outputs, h + 2 * pad, w + 2 * pad), [x], problem, np.ones((outputs, c, 1, 1), np.float32), None)


def in_order(*results: Node) -> list[Node]:
    """The nodes that results need, inputs first."""
    nodes: dict[Node, None] = {}

    def visit(node: Node) -> None:
        for read in node.inputs:
            visit(read)
        nodes.setdefault(node)

    for result in results:
        visit(result)
    return list(nodes)
