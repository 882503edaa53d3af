"""A user's matrix product in Triton, with a name of its own for a parameter and a constant of its own."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, M, N, K, TILE_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
           SCALE: tl.constexpr):
    """C = SCALE A B, one block a program."""
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((TILE_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, K, BLOCK_K):
        depths = first + tl.arange(0, BLOCK_K)
        left = tl.load(a + rows * K + depths[None, :], mask=(rows < M) & (depths[None, :] < K), other=0.0)
        right = tl.load(b + depths[:, None] * N + columns, mask=(depths[:, None] < K) & (columns < N), other=0.0)
        total += tl.dot(left, right)
    tl.store(c + rows * N + columns, (SCALE * total).to(c.dtype.element_ty), mask=(rows < M) & (columns < N))
