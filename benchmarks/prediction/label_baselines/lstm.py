"""RecurrentTranslator: an LSTM encoder-decoder like MIOpen's own KernelTuningNet, as a baseline.

As in KernelTuningNet, the source has one position per feature, a linear layer and two LSTM layers read it, their last
states are the decoder's first states, there is no attention, and decoding is greedy. Unlike there, sizes are
logarithms, all kernels and devices share one network, and exact look-ahead prevents dead ends.
Training and decoding are the transformer's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqtune.predictor.labels.inputs import MAGNITUDE_SIZE, NUMBERS, WORDS
from seqtune.predictor.labels.translator import LabelSource, SentenceModel
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator.dimensions import Dimensions
from seqtune.predictor.translator.transformer import Pairs

MAGNITUDE = 4  # index of a number's logarithm in its code
_FEATURES = len(NUMBERS) + MAGNITUDE_SIZE + len(WORDS) + 1


class RecurrentTranslator(SentenceModel):
    """The LSTM. Its memory and its past are (state, cell) for each layer, each (B, W)."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__(size, vocabulary)
        self.word = nn.Embedding(size.words, 1)
        self.feature = nn.Embedding(_FEATURES, 32)  # equals a diagonal matrix followed by a linear layer
        self.offset = nn.Embedding(_FEATURES, 32)
        self.encoder = nn.LSTM(32, size.width, size.layers, batch_first=True)
        self.decoder = nn.LSTM(size.width, size.width, size.layers, batch_first=True)

    def encode(self, source: LabelSource) -> Pairs:
        """The last states of the encoder."""
        values = torch.cat((source.codes[:, :, MAGNITUDE], source.magnitudes, self.word(source.words)[..., 0]), dim=1)
        _, (state, cell) = self.encoder(values[..., None] * self.feature.weight + self.offset.weight)
        return tuple(zip(state, cell, strict=True))

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Read words (B, T): the states after each word (B, T, W), and the last states of every layer."""
        begin = past or memory
        start = (torch.stack([state for state, _ in begin]), torch.stack([cell for _, cell in begin]))
        states, (state, cell) = self.decoder(self.asked(words), start)
        return states, tuple(zip(state, cell, strict=True))
