"""LabelTranslator: an encoder-decoder transformer from a short source sentence to the configuration a tuner chose.

It has the layers of `seqtune.predictor.times.translator`. Its source has eight tokens (batch, channels read and
written, images read and written, filter, work, words) instead of one per fact, and a target word means the same for
every problem. A label therefore costs a tenth of what it costs there, and two cores can learn from 250,000 labels.
The decoder reads the kernel's word and the values so far; after <begin> alone it predicts the fastest solver.
Shapes: B queries, N numbers, T words read, V words of the vocabulary, W width, C code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import BEGIN, UNKNOWN, Vocabulary
from ..translator.dimensions import Dimensions
from ..translator.hypotheses import Hypotheses
from ..translator.transformer import DecoderLayer, EncoderLayer, Pairs
from .inputs import CODE, MAGNITUDE_SIZE, NUMBERS, SIZES, TOKENS, Floats, Inputs
from .short_attention import ByteDropout, ShortAttention


class LabelSource(NamedTuple):
    """A batch of queries as tensors."""

    codes: Tensor  # (B, N, C)
    magnitudes: Tensor  # (B, MAGNITUDE_SIZE)
    words: Tensor  # (B, WORDS + 1) int64

    @classmethod
    def of(cls, inputs: Inputs, rows: NDArray[np.int64]) -> LabelSource:
        """The queries with these row numbers."""
        number_codes, magnitudes, words = inputs.batch(rows)
        return cls(torch.from_numpy(number_codes), torch.from_numpy(magnitudes), torch.from_numpy(words))


class SourceEmbedding(nn.Module):
    """Embeds the source sentence: a linear map per number, summed by token, then a small network."""

    belongs: Tensor  # (TOKENS, N): 1 where the number belongs to the token, else 0

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.number = nn.Parameter(torch.randn(len(NUMBERS), CODE, size.width) * 0.05)
        self.work = nn.Linear(MAGNITUDE_SIZE, size.width)
        self.word = nn.Embedding(size.words, size.width)
        self.token = nn.Parameter(torch.randn(len(TOKENS), size.width) * 0.1)
        self.mix = nn.Linear(size.width, size.width)
        nn.init.normal_(self.word.weight, std=0.1)
        belongs = torch.tensor([[float(name in SIZES.get(token, ())) for name in NUMBERS] for token in TOKENS])
        self.register_buffer("belongs", belongs, persistent=False)

    def forward(self, source: LabelSource) -> Tensor:
        """Embed a batch of queries: (B, TOKENS, W)."""
        words = source.words
        if self.training:
            words = torch.where(torch.rand(words.shape) < self.size.word_dropout, UNKNOWN, words)
        numbers = torch.bmm(source.codes.transpose(0, 1), self.number).transpose(0, 1)  # (B, N, W)
        tokens = self.belongs @ numbers + self.token
        without_numbers = torch.zeros_like(tokens)
        without_numbers[:, TOKENS.index("work")] = self.work(source.magnitudes)
        without_numbers[:, TOKENS.index("words")] = self.word(words).sum(1)
        tokens = tokens + without_numbers
        mixed: Tensor = tokens + self.mix(F.gelu(tokens))
        return mixed


class TargetVectors(nn.Module):
    """Embeds target words: the sum of a vector for the word, one for its parameter, and a map of its value's code."""

    codes: Tensor  # (V, C)
    groups: Tensor  # (V,)

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.register_buffer("codes", torch.from_numpy(codes(vocabulary.target_values())), persistent=False)
        self.register_buffer("groups", torch.from_numpy(vocabulary.target_groups()), persistent=False)
        self.word, self.group = nn.Embedding(size.targets, size.width), nn.Embedding(size.groups, size.width)
        self.code, self.mix = nn.Linear(size.code, size.width), nn.Linear(size.width, size.width)
        for embedding in (self.word, self.group):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, words: Tensor) -> Tensor:
        """Embed words: (...,) -> (..., W)."""
        group = self.group(self.groups[words])
        vectors: Tensor = self.word(words) + group + self.mix(F.gelu(self.code(self.codes[words]) + group))
        return vectors


class SentenceModel(nn.Module):
    """A model that is trained on sentences and scores next words.

    `asked` embeds the words that the decoder reads, `answered` the words that it scores: a value that was chosen and a
    value that may be chosen next have different meanings.
    """

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.size = size
        self.asked, self.answered = TargetVectors(size, vocabulary), TargetVectors(size, vocabulary)

    def encode(self, source: LabelSource) -> Pairs:
        """The tensors of the source that the decoder reads; their first axis is the query."""
        raise NotImplementedError

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Read words (B, T): the states after each word (B, T, W), and the past from which to read one more word."""
        raise NotImplementedError

    def score(self, states: Tensor, words: Tensor) -> Tensor:
        """Score the words (K,) that may follow states (B, W): scores (B, K)."""
        scores: Tensor = states @ self.answered(words).T / math.sqrt(self.size.width)
        return scores

    def forward(self, source: LabelSource, prefix: Tensor, following: Sequence[Tensor]) -> list[Tensor]:
        """Teacher forcing for sentences of one kernel: read `prefix` (B, T), and for each step t score the words
        `following[t]` (K_t,), which may come after t + 1 words. Scores (B, K_t) per step."""
        states, _ = self.decode(prefix, self.encode(source))
        return [self.score(states[:, step], words) for step, words in enumerate(following)]


class LabelTranslator(SentenceModel):
    """The transformer. Its memory and its past are keys and values for each decoder layer."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__(size, vocabulary)
        self.reader = SourceEmbedding(size)
        self.encoder = nn.ModuleList(EncoderLayer(size, ShortAttention, ByteDropout) for _ in range(size.layers))
        self.encoded = nn.LayerNorm(size.width)
        self.position = nn.Embedding(size.longest, size.width)
        self.decoder = nn.ModuleList(DecoderLayer(size, ShortAttention, ByteDropout) for _ in range(size.depth))
        self.decoded = nn.LayerNorm(size.width)
        nn.init.normal_(self.position.weight, std=0.1)

    @classmethod
    def of_arrays(cls, size: Dimensions, state: Mapping[str, Floats], vocabulary: Vocabulary) -> LabelTranslator:
        """Build a model from its state as arrays by name (see `arrays`), in evaluation mode."""
        model = cls(size, vocabulary)
        model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        return model.eval()

    def arrays(self) -> dict[str, Floats]:
        """The state as arrays by name. `seqtune.predictor.labels.numpy_translator` predicts from it without torch."""
        return {name: tensor.detach().float().cpu().numpy() for name, tensor in self.state_dict().items()}

    def encode(self, source: LabelSource) -> Pairs:
        """The keys and values of the source for every layer of the decoder."""
        x = self.reader(source)
        for layer in self.encoder:
            x = layer(x, None)
        x = self.encoded(x)
        return tuple(layer.cross.pairs(x) for layer in self.decoder)  # type: ignore[union-attr, operator]

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Read words (B, T): the states after each word (B, T, W), and the keys and values so far.

        `past` is what an earlier call returned; T must then be 1.
        """
        read = past[0][0].shape[2] if past else 0
        x = self.asked(words) + self.position(torch.arange(read, read + words.shape[1]))
        so_far = []
        for number, layer in enumerate(self.decoder):
            x, pair = layer(x, memory[number], None, past[number] if past else None)
            so_far.append(pair)
        decoded: Tensor = self.decoded(x)
        return decoded, tuple(so_far)


class LabelWords:
    """Adapts a SentenceModel to the beam search (`NextWord`); the model is put into evaluation mode."""

    def __init__(self, model: SentenceModel, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary
        with torch.inference_mode():
            self._target_vectors = model.answered(torch.arange(len(vocabulary.targets)))

    @torch.inference_mode()
    def start(self, queries: Sequence[tuple[Problem, Device]] | Queries,
              allowed: Allowed) -> tuple[Hypotheses, Scores]:
        """Begin one hypothesis without words for each query, and score the words allowed first.

        <begin> is read for these scores alone: it belongs to no hypothesis's past.
        """
        inputs = Inputs.of(Queries.of(queries), self.vocabulary.words)
        hypotheses = Hypotheses.of(self.model.encode(LabelSource.of(inputs, np.arange(len(queries)))))
        states, _ = self.model.decode(torch.full((len(queries), 1), BEGIN), hypotheses.memory)
        return hypotheses, self._scores(states, allowed)

    @torch.inference_mode()
    def advance(self, state: Hypotheses, chosen: Allowed, allowed: Allowed) -> tuple[Hypotheses, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        state = state.follow(chosen)
        memory, _ = state.selected
        states, past = self.model.decode(torch.from_numpy(chosen.words)[:, None], memory, state.past)
        return replace(state, past=past), self._scores(states, allowed)

    def _scores(self, states: Tensor, allowed: Allowed) -> Scores:
        vectors = self._target_vectors[torch.from_numpy(allowed.words)]
        scores = (states[:, 0][torch.from_numpy(allowed.after)] * vectors).sum(-1) / math.sqrt(self.model.size.width)
        result: Scores = scores.numpy()
        return result
