"""Recurrent: an LSTM encoder-decoder after MIOpen's own KernelTuningNet, as a baseline.

As there, the source is one position per feature, read through a linear layer by two LSTM layers whose last states begin
the decoder's, without attention, and decoding is greedy. Better than there, sizes are logarithms, all kernels and
devices share one network, and the exact look-ahead spares it dead ends.
It is trained and asked like the transformer.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...networks.dimensions import Dimensions
from ...networks.transformer import Pairs
from ...sequence.vocabulary import Vocabulary
from ..inputs import MAGNITUDE_SIZE, NUMBERS, WORDS
from ..translator import SentenceModel, Source

MAGNITUDE = 4  # place of a number's logarithm in its code
_FEATURES = len(NUMBERS) + MAGNITUDE_SIZE + len(WORDS) + 1


class Recurrent(SentenceModel):
    """Memory and past are (state, cell) per layer, each (B, W)."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__(size, vocabulary)
        self.word = nn.Embedding(size.words, 1)
        self.feature = nn.Embedding(_FEATURES, 32)  # what a diagonal matrix through a linear layer comes to
        self.offset = nn.Embedding(_FEATURES, 32)
        self.encoder = nn.LSTM(32, size.width, size.layers, batch_first=True)
        self.decoder = nn.LSTM(size.width, size.width, size.layers, batch_first=True)

    def encode(self, source: Source) -> Pairs:
        """The encoder's last states."""
        values = torch.cat((source.codes[:, :, MAGNITUDE], source.magnitudes, self.word(source.words)[..., 0]), dim=1)
        _, (state, cell) = self.encoder(values[..., None] * self.feature.weight + self.offset.weight)
        return tuple(zip(state, cell, strict=True))

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Words (B, T) -> states (B, T, W) after each, and the states so far."""
        begin = past or memory
        start = (torch.stack([state for state, _ in begin]), torch.stack([cell for _, cell in begin]))
        states, (state, cell) = self.decoder(self.asked(words), start)
        return states, tuple(zip(state, cell, strict=True))
