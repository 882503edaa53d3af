"""Helion's kernels for tests: products, and one that is none. Helion reads their source, so they stand in a file."""

from __future__ import annotations

import helion
import helion.language as hl
import torch


@helion.kernel(static_shapes=True)
def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x @ y."""
    m, k = x.size()
    k, n = y.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], y[tile_k, tile_n])
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True)
def layer(x: torch.Tensor, weights: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """relu(x @ weights.T + bias), with the columns' loop outside the rows'."""
    m, k = x.size()
    n, k = weights.size()
    out = torch.empty([m, n], dtype=x.dtype, device=x.device)
    for tile_n, tile_m in hl.tile([n, m]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = torch.addmm(acc, x[tile_m, tile_k], weights[tile_n, tile_k].T)
        out[tile_m, tile_n] = torch.relu(acc + bias[tile_n].to(torch.float32)).to(x.dtype)
    return out


@helion.kernel(static_shapes=True)
def fp8_product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """x @ y of 8-bit numbers."""
    m, k = x.size()
    k, n = y.size()
    out = torch.empty([m, n], dtype=torch.float32, device=x.device)
    for tile_m, tile_n in hl.tile([m, n]):
        acc = hl.zeros([tile_m, tile_n], dtype=torch.float32)
        for tile_k in hl.tile(k):
            acc = hl.dot(x[tile_m, tile_k], y[tile_k, tile_n], acc=acc)
        out[tile_m, tile_n] = acc
    return out


@helion.kernel(static_shapes=True)
def scale(x: torch.Tensor) -> torch.Tensor:
    """2 x."""
    out = torch.empty_like(x)
    for tile in hl.tile(x.size()):
        out[tile] = x[tile] * 2
    return out
