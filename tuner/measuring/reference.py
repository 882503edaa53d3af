"""Operands of a problem and the answer in float64, computed from the definition with NumPy alone.

Shapes: conv2d  x (n, c, h, w) or (n, h, w, c) by layout, weights (k, c // groups, r, s), bias (k,),
                y (n, k, out_h, out_w) or (n, out_h, out_w, k);
        gemm    x = A (m, k) or (k, m) if trans_a, weights = B (k, n) or (n, k) if trans_b, bias (n,), y = C (m, n).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.implementation import Array
from seqtune.kernels.operands import operand_shapes
from seqtune.kernels.problem import Problem


@dataclass(frozen=True, slots=True)
class Operands:
    """Inputs of one problem, fp32."""

    x: Array
    weights: Array
    bias: Array | None




def make_operands(problem: Problem, seed: int = 0) -> Operands:
    """Seeded normal operands."""
    generator = np.random.default_rng(seed)
    x, weights, bias, _ = operand_shapes(problem)
    return Operands(
        generator.standard_normal(x, dtype=np.float32), generator.standard_normal(weights, dtype=np.float32),
        generator.standard_normal(bias, dtype=np.float32) if problem["bias"] == "yes" else None)


def reference(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    """y in float64, in the problem's shape and layout."""
    y = _gemm(problem, operands) if problem.type == "gemm" else _conv2d(problem, operands)
    return np.maximum(y, 0) if problem["activation"] == "relu" else y


def _gemm(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    a = operands.x.T if problem["trans_a"] == "yes" else operands.x
    b = operands.weights.T if problem["trans_b"] == "yes" else operands.weights
    y = a.astype(np.float64) @ b.astype(np.float64)
    return y if operands.bias is None else y + operands.bias


def _conv2d(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    nhwc = problem["layout"] == "NHWC"
    x = (operands.x.transpose(0, 3, 1, 2) if nhwc else operands.x).astype(np.float64)
    pad_h, pad_w = problem.size("pad_h"), problem.size("pad_w")
    x = np.pad(x, ((0, 0), (0, 0), (pad_h, pad_h), (pad_w, pad_w)))
    n, k, groups = problem.size("n"), problem.size("k"), problem.size("groups")
    c, kg = problem.size("c_per_group"), problem.size("k_per_group")
    out_h, out_w = problem.size("out_h"), problem.size("out_w")
    stride_h, stride_w = problem.size("stride_h"), problem.size("stride_w")
    weights = operands.weights.astype(np.float64).reshape(groups, kg, c, *operands.weights.shape[2:])
    y = np.zeros((n, groups, kg, out_h * out_w))
    for r in range(problem.size("r")):  # one matrix product per filter tap
        for s in range(problem.size("s")):
            top, left = r * problem.size("dilation_h"), s * problem.size("dilation_w")
            bottom, right = top + (out_h - 1) * stride_h + 1, left + (out_w - 1) * stride_w + 1
            taps = x[:, :, top:bottom:stride_h, left:right:stride_w]
            y += weights[:, :, :, r, s] @ taps.reshape(n, groups, c, out_h * out_w)
    y = y.reshape(n, k, out_h, out_w)
    if operands.bias is not None:
        y += operands.bias[:, None, None]
    return y.transpose(0, 2, 3, 1) if nhwc else y
