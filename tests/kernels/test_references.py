"""The references of the operations beside loops that say the definition element by element."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.kernels.operations.operation import Operands
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.tuner.measuring.reference import make_operands, reference


def convolution(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    """A convolution by seven loops."""
    n, k, out_h, out_w, c, r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, h, w, k_per_group = (
        problem.size(name) for name in (
            "n", "k", "out_h", "out_w", "c_per_group", "r", "s", "stride_h", "stride_w", "dilation_h", "dilation_w",
            "pad_h", "pad_w", "h", "w", "k_per_group"))
    x, nhwc = operands["x"].astype(np.float64), problem["layout"] == "NHWC"
    y = np.zeros((n, k, out_h, out_w))
    for image, channel, row, column in itertools.product(range(n), range(k), range(out_h), range(out_w)):
        total = float(operands["bias"][channel]) if "bias" in operands else 0.0
        for depth, i, j in itertools.product(range(c), range(r), range(s)):
            top, left = row * stride_h + i * dilation_h - pad_h, column * stride_w + j * dilation_w - pad_w
            if 0 <= top < h and 0 <= left < w:
                source = channel // k_per_group * c + depth
                value = x[image, top, left, source] if nhwc else x[image, source, top, left]
                total += value * float(operands["weights"][channel, depth, i, j])
        y[image, channel, row, column] = max(total, 0.0) if problem["activation"] == "relu" else total
    return y.transpose(0, 2, 3, 1) if nhwc else y


def product(problem: Problem, operands: Operands) -> NDArray[np.float64]:
    """A matrix product by three loops."""
    m, n, k = (problem.size(name) for name in ("m", "n", "k"))
    a, b = operands["x"].astype(np.float64), operands["weights"].astype(np.float64)
    y = np.zeros((m, n))
    for row, column in itertools.product(range(m), range(n)):
        total = float(operands["bias"][column]) if "bias" in operands else 0.0
        for step in range(k):
            left = a[step, row] if problem["trans_a"] == "yes" else a[row, step]
            total += left * (b[column, step] if problem["trans_b"] == "yes" else b[step, column])
        y[row, column] = max(total, 0.0) if problem["activation"] == "relu" else total
    return y


@pytest.mark.parametrize("text", [
    "conv2d c=2 h=4 w=5 k=3 r=3 s=2 pad=1",
    "conv2d n=2 c=4 h=7 w=6 k=4 r=3 s=2 pad_h=2 pad_w=1 stride_h=2 stride_w=3 dilation=2 groups=2 bias=yes",
    "conv2d c=3 h=4 w=5 k=2 r=2 s=3 layout=NHWC bias=yes relu=yes",
    "conv2d n=2 c=3 h=4 w=3 k=6 r=1 groups=3 layout=NHWC",
])
def test_a_convolution_is_what_the_loops_say(text: str) -> None:
    problem = parse_problem(text)
    operands = make_operands(problem, seed=2)
    np.testing.assert_allclose(reference(problem, operands), convolution(problem, operands), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("transposed", ["", "trans_a=yes", "trans_b=yes", "trans_a=yes trans_b=yes"])
@pytest.mark.parametrize("epilogue", ["", "bias=yes", "bias=yes relu=yes"])
def test_a_matrix_product_is_what_the_loops_say(transposed: str, epilogue: str) -> None:
    problem = parse_problem(f"gemm m=3 n=5 k=4 {transposed} {epilogue}")
    operands = make_operands(problem, seed=2)
    np.testing.assert_allclose(reference(problem, operands), product(problem, operands), rtol=1e-12, atol=1e-12)
