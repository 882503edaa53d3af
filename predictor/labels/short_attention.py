"""ShortAttention: attention and dropout that are fast on a processor for sentences of about ten words.

PyTorch's `scaled_dot_product_attention` and Bernoulli numbers took half of the time of a training step in 16 bits.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ..translator.transformer import Attention


class ShortAttention(Attention):
    """Attention as batched products. Its only mask is the causal one."""

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], mask: Tensor | None = None,
                causal: bool = False) -> Tensor:
        """Attend from x (B, T, W) to all positions of the pair or, if causal, to those up to its own: (B, T, W)."""
        assert mask is None
        count, length, width = x.shape
        query = self.query(x).view(count, length, self.heads, -1).transpose(1, 2).flatten(0, 1)
        keys, values = pair[0].flatten(0, 1), pair[1].flatten(0, 1)
        scores = torch.bmm(query, keys.transpose(1, 2)) / math.sqrt(query.shape[2])
        if causal and length > 1:
            scores = scores + torch.full((length, length), -1e4, dtype=scores.dtype).triu(1)
        attended = torch.bmm(scores.softmax(2, dtype=scores.dtype), values)
        out: Tensor = self.out(attended.view(count, self.heads, length, -1).transpose(1, 2)
                               .reshape(count, length, width))
        return out


class ByteDropout(nn.Dropout):
    """Dropout from random bytes, so its probability is a multiple of 1/256. Torch's generator seeds it."""

    def forward(self, x: Tensor) -> Tensor:
        """Drop elements of a tensor of any shape."""
        threshold = round(256 * self.p)
        if not self.training or not threshold:
            return x
        generator = np.random.Generator(np.random.SFC64(int(torch.randint(2**62, ()))))
        random_bytes = torch.from_numpy(np.frombuffer(bytearray(generator.bytes(x.numel())), np.uint8)).view(x.shape)
        return x.masked_fill(random_bytes < threshold, 0) * (256 / (256 - threshold))
