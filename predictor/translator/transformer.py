"""Transformer: attention, and the encoder and decoder layers of the translator.

Sentences are short, and training runs on CPUs: attention in batched products and dropout from random bytes are faster
there than PyTorch's `scaled_dot_product_attention` and Bernoulli numbers, which took half of a step in 16 bits.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from .numpy_layers import Dimensions

Pairs = tuple[tuple[Tensor, Tensor], ...]  # for each layer: keys and values, both (B, heads, positions, W / heads)

UNSEEN = -1e4  # added to the scores of positions that are not seen; in 16 bits, too, their weight is 0


class Attention(nn.Module):
    """Multi-head attention. Keys and values are computed separately, so that a decoder can keep them."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the keys and values of x (B, positions, W), both (B, heads, positions, W / heads)."""
        count, length, _ = x.shape
        keys, values = self.pair(x).view(count, length, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], mask: Tensor | None = None,
                causal: bool = False) -> Tensor:
        """Let x (B, T, W) attend to the keys and values of `pair` and return (B, T, W).

        Only positions where `mask` (broadcast to B, heads, T, positions) is True are seen; with `causal`, a position
        sees itself and earlier ones.
        """
        count, length, width = x.shape
        query = self.query(x).view(count, length, self.heads, -1).transpose(1, 2).flatten(0, 1)
        keys, values = pair[0].flatten(0, 1), pair[1].flatten(0, 1)
        scores = torch.bmm(query, keys.transpose(1, 2)) / math.sqrt(query.shape[2])
        if mask is not None:
            unseen = torch.where(mask, 0.0, UNSEEN).to(scores.dtype)
            scores = (scores.view(count, self.heads, length, -1) + unseen).flatten(0, 1)
        if causal and length > 1:
            scores = scores + torch.full((length, length), UNSEEN, dtype=scores.dtype, device=x.device).triu(1)
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
        return x.masked_fill(random_bytes.to(x.device) < threshold, 0) * (256 / (256 - threshold))


def _feed_forward(size: Dimensions) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size.width, size.hidden), nn.GELU(), nn.Linear(size.hidden, size.width))


class EncoderLayer(nn.Module):
    """A layer of the encoder: self-attention over the source, then a feed-forward block."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attention, self.feed = Attention(size.width, size.heads), _feed_forward(size)
        self.drop = ByteDropout(size.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Compute (B, S, W) from x (B, S, W); `mask` is as in `Attention`."""
        normed = self.norm1(x)
        x = x + self.drop(self.attention(normed, self.attention.pairs(normed), mask))
        return x.add(self.drop(self.feed(self.norm2(x))))


class DecoderLayer(nn.Module):
    """A layer of the decoder: self-attention over the words, attention to the source, then a feed-forward block."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(size.width) for _ in range(3))
        self.attention, self.cross = Attention(size.width, size.heads), Attention(size.width, size.heads)
        self.feed, self.drop = _feed_forward(size), ByteDropout(size.dropout)

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
        """Compute (B, T, W) from x (B, T, W); `memory` holds the keys and values of the source."""
        normed = self.norm1(x)
        x = x + self.drop(self.attention(normed, self.attention.pairs(normed), causal=True))
        states = self.norm2(x).reshape(memory[0].shape[0], -1, x.shape[2])  # joins the sentences of one source
        x = x + self.drop(self.cross(states, memory, mask).reshape(x.shape))
        return x.add(self.drop(self.feed(self.norm3(x))))
