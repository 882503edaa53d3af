"""The grouped matrix product of a mixture of experts in Triton, under the parameter names of `triton.fused_moe`.

Users of `triton.fused_moe` run vLLM's and SGLang's kernel; this one shows what Triton allocates for such a tile.

A *pair* is a token and one of its `top_k` experts, numbered token * top_k + choice. The pairs are sorted by expert and
each expert's are padded to whole blocks with the number `pairs`, so that a block belongs to one expert.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def experts(x, weights, y, shares, sorted_pairs, block_experts, blocks, pairs, columns, depth, top_k,
            BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
            GROUP_SIZE_M: tl.constexpr, SHARED: tl.constexpr):
    """One block of y (pairs, columns) = x[pair // top_k] (depth,) times weights[expert] (columns, depth).

    With SHARED each row is multiplied by its pair's share of the token's result.
    """
    program = tl.program_id(0)
    group = GROUP_SIZE_M * tl.cdiv(columns, BLOCK_SIZE_N)
    first = program // group * GROUP_SIZE_M
    height = min(blocks - first, GROUP_SIZE_M)
    block = first + program % group % height
    across = program % group // height * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    expert = tl.load(block_experts + block).to(tl.int64)
    rows = tl.load(sorted_pairs + block * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M))
    valid = rows < pairs
    depths = tl.arange(0, BLOCK_SIZE_K)
    left = x + (rows // top_k).to(tl.int64)[:, None] * depth + depths[None, :]
    right = weights + expert * columns * depth + (across % columns)[None, :] * depth + depths[:, None]
    total = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for step in range(tl.cdiv(depth, BLOCK_SIZE_K)):
        remaining = depth - step * BLOCK_SIZE_K
        a = tl.load(left, mask=valid[:, None] & (depths[None, :] < remaining), other=0.0)
        b = tl.load(right, mask=depths[:, None] < remaining, other=0.0)
        total = tl.dot(a, b, total)
        left += BLOCK_SIZE_K
        right += BLOCK_SIZE_K
    if SHARED:
        total *= tl.load(shares + rows, mask=valid, other=0.0).to(tl.float32)[:, None]
    places = y + rows.to(tl.int64)[:, None] * columns + across[None, :]
    tl.store(places, total.to(y.dtype.element_ty), mask=valid[:, None] & (across[None, :] < columns))
