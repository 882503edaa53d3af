"""Translations of products of two computed matrices, for each place of leading axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from seqtune.errors import ProblemError
from seqtune.kernels.llvm.text.formula import Formula
from seqtune.kernels.problem import Problem

from ..nodes import Node, Pointwise, Product, Reduction
from ..steps.rows import SCALE
from .layers import linear_product
from .lowering import Lowering, Maker, UnknownOperationError, arguments, shape_of

aten = torch.ops.aten


def _matmul(lowering: Lowering, node: fx.Node) -> Node:
    first, second = node.args[:2]
    weights = lowering.values.get(second) if isinstance(second, fx.Node) else None
    if isinstance(weights, Tensor) and weights.dim() == 2 and len(lowering.value(first).shape) > 1:
        constant = lowering.constant(second)
        assert constant is not None
        return linear_product(lowering, node, first, constant.t(), None)
    return multiplied(lowering, lowering.value(first), lowering.value(second), shape_of(node))


def multiplied(lowering: Lowering, a: Node, b: Node, shape: tuple[int, ...]) -> Node:
    """The product of (*lead, m, k) and (*lead, k, n); an operand of one axis is a row, or a column."""
    if len(a.shape) == 1:
        a = lowering.add_reshaped(a, (1, *a.shape))
    if len(b.shape) == 1:
        b = lowering.add_reshaped(b, (*b.shape, 1))
    (m, k), n = a.shape[-2:], b.shape[-1]
    lead = tuple(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    if m == 1 or n == 1:  # sums of products: packing B would take longer
        return lowering.add_reshaped(_summed(lowering, a, b, (*lead, m, n)), shape)
    try:
        Problem.make("gemm", m=m, n=n, k=k)
    except ProblemError as error:
        raise UnknownOperationError(f"a product that no kernel computes ({error})") from None
    return lowering.add_reshaped(lowering.add(Product((*lead, m, n), [a, b])), shape)


def _summed(lowering: Lowering, a: Node, b: Node, shape: tuple[int, ...]) -> Node:
    """The product with one row or one column, as a sum over an axis of products of numbers."""
    lead = shape[:-2]
    if shape[-1] == 1:  # sums along the rows of a
        matrix, row, axis = a, lowering.add_permuted(b, _swapped(len(b.shape))), len(shape) - 1
    else:
        matrix, row, axis = b, lowering.add_permuted(a, _swapped(len(a.shape))), len(shape) - 2
    whole = (*lead, *matrix.shape[-2:])
    matrix = lowering.add_expanded(matrix, whole)
    kept = tuple(1 if index == axis else size for index, size in enumerate(whole))
    total = lowering.add(Reduction(kept, [matrix, row], "sum", (axis,), True, SCALE))
    return lowering.add_reshaped(total, shape)


def _swapped(axes: int) -> tuple[int, ...]:
    return (*range(axes - 2), axes - 1, axes - 2)


def _baddbmm(lowering: Lowering, node: fx.Node) -> Node:
    """beta times a tensor plus alpha times the products; with beta 0, nothing of the tensor is read."""
    given = arguments(node)
    shape, (alpha, beta) = shape_of(node), (float(given[name]) for name in ("alpha", "beta"))
    whole = multiplied(lowering, lowering.value(given["batch1"]), lowering.value(given["batch2"]), shape)
    if beta == 0:
        return lowering.add(Pointwise(shape, [whole], Formula.of("mul", 0, alpha)))
    scaled = whole if alpha == 1 else lowering.add(Pointwise(shape, [whole], Formula.of("mul", 0, alpha)))
    added = lowering.value(given["self"])
    lines = (("add", 1, 0),) if beta == 1 else (("mul", 0, beta), ("add", 1, 2))
    return lowering.add(Pointwise(shape, [added, scaled], Formula(2, lines)))


PRODUCTS: dict[Any, Maker] = {
    aten.matmul.default: _matmul, aten.bmm.default: _matmul, aten.mm.default: _matmul, aten.baddbmm.default: _baddbmm}
