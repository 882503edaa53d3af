"""Translator: a small encoder-decoder transformer from source sentences to target sentences, in plain PyTorch.

Pre-norm blocks on `scaled_dot_product_attention` (which export to ONNX). A target word's vector is the sum of its own
embedding, its parameter's embedding and a small network's view of its value's numeric code and of how the value fits
the problem's quantities (what a tile of 14 wastes in a row of 56). The same vectors read words in and score them
(logit = state · vector), so a value that was rare in training borrows from its neighbours.
What a word would settle (a tile's accumulators, the waste of a row: see
`seqtune.predictor.sequence.derived_quantities`) joins its vector there, so only words that the search space allows are
ever scored.
Shapes: B sentences, S source positions, T target words, V target vocabulary, D derived quantities, W width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..networks.dimensions import Dimensions
from ..networks.transformer import DecoderLayer, EncoderLayer, Pairs, _feed_forward
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import PAD, UNKNOWN, Batch, Vocabulary


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


class Choices(NamedTuple):
    """Words to be scored, and after what."""

    place: Tensor  # (R,) int64: sentence * T + number of the last word before it
    words: Tensor  # (R,) int64
    settled: Tensor  # (R, D) log2 of the derived quantities settled once the word is said, NaN where not settled


class Memory(NamedTuple):
    """What the decoder needs of the encoded source."""

    pairs: Pairs
    mask: Tensor  # (B, 1, 1, S) bool
    vectors: Tensor  # (B, V, W) of the target words, as the problem sees them

    def look_up(self, owners: Tensor, words: Tensor) -> Tensor:
        """Vectors (..., W) of `words` as the sources `owners` see them."""  # F.embedding: its gradient is repeatable
        return F.embedding(owners * self.vectors.shape[1] + words, self.vectors.flatten(0, 1))


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


SETTLED_SIZE = 6  # numbers per derived quantity


def settled_codes(settled: Tensor) -> Tensor:
    """log2 of derived quantities (..., D) -> (..., D * SETTLED_SIZE); zeros where NaN.

    Whether it is settled, its magnitude, twice its log2 near 1 (waste and idleness), whether it is 1, its inverse where
    above 1, and the quantity itself where at most 32 (registers).
    """
    known = ~torch.isnan(settled)
    octave = torch.where(known, settled, 0.0)
    found = torch.stack([
        torch.ones_like(octave), octave / 8, 2 * octave.clamp(-1, 1), (octave.abs() < 1e-3).to(octave.dtype),
        torch.exp2(-octave.clamp(min=0)), torch.exp2(octave.clamp(max=5)) / 16], dim=-1)
    return (found * known[..., None]).flatten(-2)


class SettledWords(nn.Module):
    """A target word's vector together with what the word settles: as it is read, and as it is scored."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.quantity = nn.Parameter(torch.empty(size.derived, SETTLED_SIZE, size.width))
        nn.init.normal_(self.quantity, std=0.1)  # by nn.init, which loading a checkpoint leaves out (see `Undrawn`)
        self.read, self.ask = nn.Linear(size.width, size.width), nn.Linear(size.width, size.width)
        self.answer = _feed_forward(size)

    def forward(self, vectors: Tensor, settled: Tensor) -> Tensor:
        """As the decoder reads them. (..., W), (..., D) -> (..., W)"""
        mixed: Tensor = vectors + self.read(F.gelu(self._seen(vectors, settled)))
        return mixed

    def score(self, states: Tensor, place: Tensor, vectors: Tensor, settled: Tensor) -> Tensor:
        """Words (R, W) after states (places, W), with what they settle (R, D): the state asks about it. (R,)"""
        asked = F.embedding(place, self.ask(states))
        vectors = vectors + self.answer(F.gelu(self._seen(vectors, settled) + asked))
        return (F.embedding(place, states) * vectors).sum(-1) / math.sqrt(states.shape[-1])

    def _seen(self, vectors: Tensor, settled: Tensor) -> Tensor:
        return settled_codes(settled) @ self.quantity.flatten(0, 1) + vectors


class Translator(nn.Module):
    """Everything below is a child module, so that the pretrained wrapper can own the same children."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.source = SourceWords(size)
        self.encoder = nn.ModuleList(EncoderLayer(size) for _ in range(size.layers))
        self.encoded = nn.LayerNorm(size.width)
        self.target = TargetWords(size)
        self.settled = SettledWords(size)
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
        """A copy with room for an extended vocabulary. New source words begin as <unknown>, new quantities without
        influence."""
        size = Dimensions.of(vocabulary)
        size = replace(self.size, names=size.names, words=size.words, targets=size.targets, groups=size.groups,
                       derived=size.derived, quantities=size.quantities,
                       longest=max(size.longest, self.size.longest))
        other = Translator(size)
        with torch.no_grad():
            for embedding in (other.source.name, other.source.word):
                old = self.source.name if embedding is other.source.name else self.source.word
                embedding.weight.copy_(old.weight[UNKNOWN].expand_as(embedding.weight))
            other.settled.quantity.zero_()
            other.target.fit.weight.zero_()
            found = self.state_dict()
            for name, tensor in other.state_dict().items():
                tensor[tuple(slice(length) for length in found[name].shape)] = found[name]
        return other.describe(vocabulary).train(self.training)

    def encode(self, source: Source) -> Memory:
        """Read the source once; its keys and values serve every step of every hypothesis."""
        return self.memory(self.read(source), source.mask, source.quantities)

    def read(self, source: Source) -> Tensor:
        """The encoder's states (B, S, W)."""
        x = self.source(source)
        for layer in self.encoder:
            x = layer(x, source.mask[:, None, None, :])
        states: Tensor = self.encoded(x)
        return states

    def memory(self, states: Tensor, mask: Tensor, quantities: Tensor) -> Memory:
        """Keys and values from the encoder's states (B, S, W) and their mask (B, S), and the target words' vectors."""
        pairs = tuple(layer.cross.pairs(states) for layer in self.decoder)  # type: ignore[union-attr, operator]
        return Memory(pairs, mask[:, None, None, :], self.target(quantities))

    def decode(self, x: Tensor, pairs: Pairs, mask: Tensor | None, past: Pairs | None = None) -> tuple[Tensor, Pairs]:
        """Words as read (B, T, W) -> states (B, T, W) after each, and the keys and values so far.

        `past` continues an earlier call with one more word (T = 1). Where the memory's pairs and mask have fewer
        sources than there are sentences (in training), each source has equally many sentences, in order.
        """
        done = 0 if past is None else past[0][0].shape[2]
        x = x + self.position(torch.arange(done, done + x.shape[1], device=x.device))
        so_far = []
        for number, layer in enumerate(self.decoder):
            x, pair = layer(x, pairs[number], mask, None if past is None else past[number])
            so_far.append(pair)
        decoded: Tensor = self.decoded(x)
        return decoded, tuple(so_far)

    def forward(self, source: Source, words: Tensor, settled: Tensor, choices: Choices) -> Tensor:
        """Teacher forcing. `words` (B, T) begin with <begin> and leave out the last; `settled` (B, T, D) is what they
        settle. Scores (R,) of the choices: log-probabilities up to a constant per place."""
        memory = self.encode(source)
        each = words.shape[0] // memory.vectors.shape[0]  # sentences of one source
        owners = torch.arange(words.shape[0], device=words.device)[:, None] // each
        x = self.settled(memory.look_up(owners, words), settled)
        states = self.decode(x, memory.pairs, memory.mask)[0].flatten(0, 1)
        vectors = memory.look_up(choices.place // (words.shape[1] * each), choices.words)
        scores: Tensor = self.settled.score(states, choices.place, vectors, choices.settled)
        return scores


def described(vocabulary: Vocabulary) -> dict[str, Tensor]:
    """The buffers that say what the target words mean, by their names in the state."""
    values = vocabulary.target_values()
    numbers = [float(value) if isinstance(value, int | float) and value > 0 else 0.0 for value in values]
    return {"target.codes": torch.from_numpy(codes(values)), "target.values": torch.tensor(numbers),
            "target.groups": torch.from_numpy(vocabulary.target_groups())}
