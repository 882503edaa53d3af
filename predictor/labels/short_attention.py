"""Blocks for short sentences on a processor: attention and dropout that cost little where both axes are ten long.

`scaled_dot_product_attention` and Bernoulli numbers took half of a training step in 16 bits.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ..networks.transformer import Attention


class ShortAttention(Attention):
    """Attention as batched products. Nothing is masked but what comes later."""

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], mask: Tensor | None = None,
                causal: bool = False) -> Tensor:
        """x (B, T, W) attends to all of the pair's positions, or (causal) to those up to its own."""
        assert mask is None
        count, length, width = x.shape
        query = self.query(x).view(count, length, self.heads, -1).transpose(1, 2).flatten(0, 1)
        keys, values = pair[0].flatten(0, 1), pair[1].flatten(0, 1)
        scores = torch.bmm(query, keys.transpose(1, 2)) / math.sqrt(query.shape[2])
        if causal and length > 1:
            scores = scores + torch.full((length, length), -1e4, dtype=scores.dtype).triu(1)
        found = torch.bmm(scores.softmax(2, dtype=scores.dtype), values)
        out: Tensor = self.out(found.view(count, self.heads, length, -1).transpose(1, 2).reshape(count, length, width))
        return out


class ByteDropout(nn.Dropout):
    """Dropout from random bytes, so with a probability of so many 256ths; seeded by torch's generator."""

    def forward(self, x: Tensor) -> Tensor:
        """Any shape."""
        least = round(256 * self.p)
        if not self.training or not least:
            return x
        generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, ()))))
        bits = torch.from_numpy(np.frombuffer(bytearray(generator.bytes(x.numel())), np.uint8)).view(x.shape)
        return x.masked_fill(bits < least, 0) * (256 / (256 - least))
