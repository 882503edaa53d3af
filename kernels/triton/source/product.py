"""Triton's text of a matrix product with an epilogue, and of the sum of its slices of k.

Rows and columns beyond the matrix wrap around, so that loads need a mask along k alone; the store has masks. Imported
only by what compiles or runs it: it needs Triton.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def product(x, weights, bias, y, workspace, m, n, k,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
            SPLIT_K: tl.constexpr, TRANS_A: tl.constexpr, TRANS_B: tl.constexpr, EVEN_K: tl.constexpr,
            BIAS: tl.constexpr, RELU: tl.constexpr, PRECISION: tl.constexpr):
    """One block of C, or with SPLIT_K one slice of it, into the workspace (slice, m, n)."""
    program = tl.program_id(0)
    piece = tl.program_id(1)
    across = tl.cdiv(n, BLOCK_N)
    down = tl.cdiv(m, BLOCK_M)
    group = GROUP_M * across
    first = program // group * GROUP_M
    height = min(down - first, GROUP_M)
    row = first + program % group % height
    column = program % group // height
    rows = (row * BLOCK_M + tl.arange(0, BLOCK_M)) % m
    columns = (column * BLOCK_N + tl.arange(0, BLOCK_N)) % n
    depths = piece * BLOCK_K + tl.arange(0, BLOCK_K)
    left = x + (rows[:, None] + depths[None, :] * m if TRANS_A else rows[:, None] * k + depths[None, :])
    right = weights + (columns[None, :] * k + depths[:, None] if TRANS_B else columns[None, :] + depths[:, None] * n)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, BLOCK_K * SPLIT_K)):
        if EVEN_K:
            a = tl.load(left)
            b = tl.load(right)
        else:
            remaining = k - step * BLOCK_K * SPLIT_K
            a = tl.load(left, mask=depths[None, :] < remaining, other=0.0)
            b = tl.load(right, mask=depths[:, None] < remaining, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
        left += BLOCK_K * SPLIT_K * (m if TRANS_A else 1)
        right += BLOCK_K * SPLIT_K * (1 if TRANS_B else n)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = column * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    if SPLIT_K > 1:
        place = workspace + piece.to(tl.int64) * m * n
        tl.store(place + rows[:, None] * n + columns[None, :], total, mask=inside)
    else:
        if BIAS:
            total += tl.load(bias + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
        if RELU:
            total = tl.maximum(total, 0.0)
        tl.store(y + rows[:, None] * n + columns[None, :], total.to(y.dtype.element_ty), mask=inside)


@triton.jit
def combine(x, weights, bias, y, workspace, m, n, k, COMBINED: tl.constexpr, SPLIT_K: tl.constexpr,
            BIAS: tl.constexpr, RELU: tl.constexpr):
    """COMBINED elements of C: the sum of the slices in the workspace, then the epilogue."""
    places = tl.program_id(0).to(tl.int64) * COMBINED + tl.arange(0, COMBINED)
    size = tl.full((), 1, tl.int64) * m * n
    inside = places < size
    total = tl.zeros((COMBINED,), dtype=tl.float32)
    for piece in range(SPLIT_K):
        total += tl.load(workspace + piece * size + places, mask=inside, other=0.0)
    if BIAS:
        total += tl.load(bias + places % n, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        total = tl.maximum(total, 0.0)
    tl.store(y + places, total.to(y.dtype.element_ty), mask=inside)
