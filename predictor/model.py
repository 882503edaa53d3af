"""Translator: a small encoder-decoder transformer from source sentences to target sentences, in plain PyTorch.

Pre-norm blocks on `scaled_dot_product_attention` (which export to ONNX). A target word's vector is the sum of its own
embedding, its parameter's embedding and a small network's view of its value's numeric code and of how the value fits
the problem's quantities (what a tile of 14 wastes in a row of 56). The same vectors read words in and score them
(logit = state · vector), so a value that was rare in training borrows from its neighbours.
Shapes: B sentences, S source positions, T target words, V target vocabulary, W width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.features import CODE_SIZE, QUANTITIES, codes
from seqtune.predictor.vocabulary import BEGIN, PAD, UNKNOWN, Batch, Vocabulary


@dataclass(frozen=True, slots=True)
class Dimensions:
    """Sizes of a Translator. The first five follow from the vocabulary (`of`); the next two are fixed."""

    names: int
    words: int
    targets: int
    groups: int
    longest: int  # target words of the longest sentence
    code: int = CODE_SIZE
    quantities: int = len(QUANTITIES)
    width: int = 128
    layers: int = 3  # of the encoder, and of the decoder
    heads: int = 4
    hidden: int = 256  # of the feed-forward blocks
    dropout: float = 0.1
    word_dropout: float = 0.05  # source words read as <unknown> in training, so that <unknown> gets a meaning
    number_dropout: float = 0.01  # the same for numbers

    @classmethod
    def of(cls, vocabulary: Vocabulary, **options: Any) -> Dimensions:
        """Sized for a vocabulary; `options` are the fields from `width` on."""
        return cls(len(vocabulary.names), len(vocabulary.words), len(vocabulary.targets),
                   len(vocabulary.parameter_names), vocabulary.longest, **options)


class Source(NamedTuple):
    """A batch of source sentences as tensors."""

    names: Tensor  # (B, S) int64
    words: Tensor  # (B, S) int64
    codes: Tensor  # (B, S, CODE_SIZE)
    mask: Tensor  # (B, S) bool, False at padding
    quantities: Tensor  # (B, Q)

    @classmethod
    def of(cls, batch: Batch) -> Source:
        """Shares the batch's memory."""
        return cls(torch.from_numpy(batch.names), torch.from_numpy(batch.words), torch.from_numpy(batch.codes),
                   torch.from_numpy(batch.mask), torch.from_numpy(batch.quantities))


Pairs = tuple[tuple[Tensor, Tensor], ...]  # per decoder layer: keys and values, each (B, heads, positions, W / heads)


class Memory(NamedTuple):
    """What the decoder needs of the encoded source."""

    pairs: Pairs
    mask: Tensor  # (B, 1, 1, S) bool
    vectors: Tensor  # (B, V, W) of the target words, as the problem sees them

    def select(self, rows: Tensor) -> Memory:
        """The memory of those sentences."""
        return Memory(tuple((keys[rows], values[rows]) for keys, values in self.pairs), self.mask[rows],
                      self.vectors[rows])


class Attention(nn.Module):
    """Multi-head attention whose keys and values are made apart, so that they can be kept."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def pairs(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of x (B, positions, W)."""
        count, length, _ = x.shape
        keys, values = self.pair(x).view(count, length, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        return keys, values

    def forward(self, x: Tensor, pair: tuple[Tensor, Tensor], mask: Tensor | None = None,
                causal: bool = False) -> Tensor:
        """x (B, T, W) attends to the pair's positions where `mask` (broadcast to B, heads, T, positions) is True."""
        count, length, width = x.shape
        query = self.query(x).view(count, length, self.heads, -1).transpose(1, 2)
        found = F.scaled_dot_product_attention(query, pair[0], pair[1], attn_mask=mask, is_causal=causal)
        out: Tensor = self.out(found.transpose(1, 2).reshape(count, length, width))
        return out


def _feed_forward(size: Dimensions) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size.width, size.hidden), nn.GELU(), nn.Linear(size.hidden, size.width))


class EncoderLayer(nn.Module):
    """Self-attention over the source, then a feed-forward block."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size.width), nn.LayerNorm(size.width)
        self.attention, self.feed = Attention(size.width, size.heads), _feed_forward(size)
        self.drop = nn.Dropout(size.dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, W) -> (B, S, W)."""
        normed = self.norm1(x)
        x = x + self.drop(self.attention(normed, self.attention.pairs(normed), mask))
        return x.add(self.drop(self.feed(self.norm2(x))))


class DecoderLayer(nn.Module):
    """Self-attention over the words so far, attention to the source, then a feed-forward block."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(size.width) for _ in range(3))
        self.attention, self.cross = Attention(size.width, size.heads), Attention(size.width, size.heads)
        self.feed, self.drop = _feed_forward(size), nn.Dropout(size.dropout)

    def forward(self, x: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor,
                past: tuple[Tensor, Tensor] | None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """(B, T, W) -> (B, T, W) and the keys and values of all words so far. With a past, T is 1."""
        normed = self.norm1(x)
        pair = self.attention.pairs(normed)
        if past is not None:
            pair = (torch.cat((past[0], pair[0]), dim=2), torch.cat((past[1], pair[1]), dim=2))
        x = x + self.drop(self.attention(normed, pair, causal=past is None))
        asked = self.norm2(x).reshape(memory[0].shape[0], -1, x.shape[2])  # sentences of one source ask it together
        x = x + self.drop(self.cross(asked, memory, mask).reshape(x.shape))
        return x + self.drop(self.feed(self.norm3(x))), pair


class SourceWords(nn.Module):
    """The input embedding: name + word, and both together with the number through a small network."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.name, self.word = nn.Embedding(size.names, size.width), nn.Embedding(size.words, size.width)
        self.code, self.mix = nn.Linear(size.code, size.width), nn.Linear(size.width, size.width)
        for embedding in (self.name, self.word):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, source: Source) -> Tensor:
        """(B, S, W)."""
        words, codes = source.words, source.codes
        if self.training:
            gone = torch.rand(words.shape, device=words.device)
            words = torch.where((words != PAD) & (gone < self.size.word_dropout), UNKNOWN, words)
            unknown = torch.zeros(self.size.code, device=codes.device)
            unknown[0] = 1.0
            hidden = (words == PAD) & source.mask & (gone < self.size.number_dropout)
            codes = torch.where(hidden[..., None], unknown, codes)
        known = self.name(source.names) + self.word(words)
        mixed: Tensor = known + self.mix(F.gelu(self.code(codes) + known))
        return mixed


FIT_SIZE = 4  # numbers per pair of quantity and value


def fits(quantities: Tensor, values: Tensor) -> Tensor:
    """Quantities (B, Q) against values (V,) -> (B, V, Q * FIT_SIZE).

    log2(q / v) / 8, the share kept when q is rounded up to a multiple of v, whether v divides q, whether one v covers
    q. Zeros where either is not positive.
    """
    q, v = quantities[:, None, :], values[None, :, None]
    present = (q > 0) & (v > 0)
    q, v = torch.where(present, q, 1.0), torch.where(present, v, 1.0)
    times = torch.ceil(q / v)
    kept = q / (times * v)
    found = torch.stack([torch.log2(q / v) / 8, kept, (kept == 1).to(q.dtype), (times == 1).to(q.dtype)], dim=-1)
    return (found * present[..., None]).flatten(2)


class TargetWords(nn.Module):
    """The vectors of the target vocabulary; its buffers come from the vocabulary and are saved with it."""

    codes: Tensor  # (V, CODE_SIZE)
    values: Tensor  # (V,) 0 for words that are no positive number
    groups: Tensor  # (V,)

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.register_buffer("codes", torch.zeros(size.targets, size.code))
        self.register_buffer("values", torch.zeros(size.targets))
        self.register_buffer("groups", torch.zeros(size.targets, dtype=torch.int64))
        self.word, self.group = nn.Embedding(size.targets, size.width), nn.Embedding(size.groups, size.width)
        self.code, self.mix = nn.Linear(size.code, size.width), nn.Linear(size.width, size.width)
        self.fit = nn.Linear(size.quantities * FIT_SIZE, size.width, bias=False)
        for embedding in (self.word, self.group):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, quantities: Tensor) -> Tensor:
        """(B, Q) -> (B, V, W)."""
        group = self.group(self.groups)
        seen = self.fit(fits(quantities, self.values)) + self.code(self.codes) + group
        vectors: Tensor = self.word.weight + group + self.mix(F.gelu(seen))
        return vectors


class Translator(nn.Module):
    """Everything below is a child module, so that the pretrained wrapper can own the same children."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.source = SourceWords(size)
        self.encoder = nn.ModuleList(EncoderLayer(size) for _ in range(size.layers))
        self.encoded = nn.LayerNorm(size.width)
        self.target = TargetWords(size)
        self.position = nn.Embedding(size.longest, size.width)
        self.decoder = nn.ModuleList(DecoderLayer(size) for _ in range(size.layers))
        self.decoded = nn.LayerNorm(size.width)
        nn.init.normal_(self.position.weight, std=0.1)

    @classmethod
    def of(cls, vocabulary: Vocabulary, **options: Any) -> Translator:
        """A new, untrained one; `options` are fields of Dimensions."""
        return cls(Dimensions.of(vocabulary, **options)).describe(vocabulary)

    def describe(self, vocabulary: Vocabulary) -> Translator:
        """Fills in what the target words mean."""
        for name, tensor in described(vocabulary).items():
            self.get_buffer(name).copy_(tensor)
        return self

    def grown(self, vocabulary: Vocabulary) -> Translator:
        """A copy with room for an extended vocabulary. New source words begin as <unknown>."""
        size = Dimensions.of(vocabulary)
        size = replace(self.size, names=size.names, words=size.words, targets=size.targets, groups=size.groups,
                       longest=max(size.longest, self.size.longest))
        other = Translator(size)
        with torch.no_grad():
            for embedding in (other.source.name, other.source.word):
                old = self.source.name if embedding is other.source.name else self.source.word
                embedding.weight.copy_(old.weight[UNKNOWN].expand_as(embedding.weight))
            found = self.state_dict()
            for name, tensor in other.state_dict().items():
                tensor[tuple(slice(length) for length in found[name].shape)] = found[name]
        return other.describe(vocabulary).train(self.training)

    def encode(self, source: Source) -> Memory:
        """Reads the source once; its keys and values serve every step of every hypothesis."""
        mask = source.mask[:, None, None, :]
        x = self.source(source)
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoded(x)
        pairs = tuple(layer.cross.pairs(x) for layer in self.decoder)  # type: ignore[union-attr, operator]
        return Memory(pairs, mask, self.target(source.quantities))

    def decode(self, words: Tensor, memory: Memory, past: Pairs | None = None) -> tuple[Tensor, Pairs]:
        """Words (B, T) -> logits (B, T, V) of the next word after each, and the keys and values so far.

        `past` continues an earlier call with one more word (T = 1). Where the memory has fewer sources than there are
        sentences (in training), each source has equally many sentences, in order.
        """
        sources = memory.vectors.shape[0]
        done = 0 if past is None else past[0][0].shape[2]
        places = torch.arange(done, done + words.shape[1], device=words.device)
        rows = torch.arange(words.shape[0], device=words.device)[:, None] // (words.shape[0] // sources)
        x = memory.vectors[rows, words] + self.position(places)
        pairs = []
        for number, layer in enumerate(self.decoder):
            x, pair = layer(x, memory.pairs[number], memory.mask, None if past is None else past[number])
            pairs.append(pair)
        scores = self.decoded(x).reshape(sources, -1, self.size.width) @ memory.vectors.transpose(1, 2)
        return scores.reshape(*words.shape, -1) / math.sqrt(self.size.width), tuple(pairs)

    def step(self, words: Tensor, memory: Memory, past: Pairs | None) -> tuple[Tensor, Pairs]:
        """One word per sentence (B,) -> logits (B, V)."""
        logits, pairs = self.decode(words[:, None], memory, past)
        return logits[:, 0], pairs

    def forward(self, source: Source, words: Tensor) -> Tensor:
        """Teacher forcing. `words` (B, T) begin with <begin> and leave out the last; logits (B, T, V) of the next."""
        return self.decode(words, self.encode(source))[0]


def described(vocabulary: Vocabulary) -> dict[str, Tensor]:
    """The buffers that say what the target words mean, by their names in the state."""
    values = vocabulary.target_values()
    numbers = [float(value) if isinstance(value, int | float) and value > 0 else 0.0 for value in values]
    return {"target.codes": torch.from_numpy(codes(values)), "target.values": torch.tensor(numbers),
            "target.groups": torch.from_numpy(vocabulary.target_groups())}


class Decoding(NamedTuple):
    """Where a translation stands: which problem each hypothesis belongs to, and what is kept of it."""

    memory: Memory  # of every problem
    chosen: Memory  # of every hypothesis
    owners: NDArray[np.int64]  # hypothesis -> problem
    past: Pairs


class TranslatorWords:
    """The Translator as a `NextWord` of the beam search; it is put into evaluation mode."""

    def __init__(self, model: Translator, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary

    @torch.inference_mode()
    def start(self, questions: Sequence[tuple[Problem, Device]]) -> tuple[Decoding, NDArray[np.float32]]:
        """One empty hypothesis per question; the scores (question, V) of their first words."""
        batch = Batch.of([self.vocabulary.source(problem, device) for problem, device in questions])
        memory = self.model.encode(Source.of(batch))
        first = torch.full((len(questions),), BEGIN)
        logits, past = self.model.step(first, memory, None)
        return Decoding(memory, memory, np.arange(len(questions)), past), logits.numpy()

    @torch.inference_mode()
    def advance(self, state: Decoding, parents: NDArray[np.int64],
                words: NDArray[np.int64]) -> tuple[Decoding, NDArray[np.float32]]:
        """New hypotheses: each an old one (by number) with one more word; the scores (hypothesis, V) of the next."""
        rows = torch.from_numpy(parents)
        owners = state.owners[parents]
        same = np.array_equal(owners, state.owners)
        chosen = state.chosen if same else state.memory.select(torch.from_numpy(owners))
        past = state.past if np.array_equal(parents, np.arange(len(state.owners))) else tuple(
            (keys[rows], values[rows]) for keys, values in state.past)
        logits, past = self.model.step(torch.from_numpy(words), chosen, past)
        return Decoding(state.memory, chosen, owners, past), logits.numpy()
