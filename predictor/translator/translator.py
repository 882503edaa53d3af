"""Translator: a small encoder-decoder transformer from source sentences to target sentences, in plain PyTorch.

It has pre-norm blocks. Facts that share a position of the source are added up.
A target word's vector is the sum of its own embedding, its
parameter's embedding and the output of a small network, whose input is the value's numeric code and how the value fits
the problem's quantities (such as the waste of a tile of 14 in a row of 56). The same vectors embed the words that are
read and score the next words (logit = state · vector), so a value that is rare in training benefits from similar
values.
The derived quantities that a word resolves (a tile's accumulators, the waste of a row: see
`seqtune.predictor.sequence.grammar`) are added to its vector. They come from the search space, so only words
that it allows are scored. The attribute `settled` holds the layer for them; its name is part of the checkpoint format.
Words can also be fixed (`Dimensions.fixed_words`): the same for every problem and after every prefix, so that training
computes them once in a step. Then 250,000 choices train in an hour.
Shapes: B sentences, F facts, S source positions, T target words, V target vocabulary, D derived quantities, W width.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ..sequence.vocabulary import PAD, UNKNOWN, SourceBatch, Vocabulary
from .judge import Judge
from .numpy_layers import Dimensions, Tensors
from .quantity_codes import fit_numbers, resolved_numbers
from .transformer import DecoderLayer, EncoderLayer, Pairs, _feed_forward
from .word_vectors import FIT_SIZE, RESOLVED_SIZE, described_arrays


class Source(NamedTuple):
    """A batch of source sentences as tensors."""

    names: Tensor  # (B, F) int64
    words: Tensor  # (B, F) int64
    codes: Tensor  # (B, F, CODE_SIZE)
    mask: Tensor  # (B, S) bool, False at padding
    quantities: Tensor  # (B, Q)
    positions: Tensor | None = None  # (B, F) int64, S at padding; None: each fact has a position of its own

    @classmethod
    def of(cls, batch: SourceBatch) -> Source:
        """Make tensors that share the batch's memory."""
        return cls(torch.from_numpy(batch.names), torch.from_numpy(batch.words), torch.from_numpy(batch.codes),
                   torch.from_numpy(batch.mask), torch.from_numpy(batch.quantities),
                   None if batch.positions is None else torch.from_numpy(batch.positions))


class Choices(NamedTuple):
    """Words to be scored, with the positions that they follow."""

    position: Tensor  # (R,) int64: sentence * T + index of the word before
    words: Tensor  # (R,) int64
    resolved: Tensor  # (R, D) log2 of the derived quantities resolved once the word is added; NaN if not resolved


class Listed(NamedTuple):
    """Whole configurations for the judge."""

    words: Tensor  # (B, N, T) int64, <pad> after the end
    resolved: Tensor  # (B, N, D) log2 of all derived quantities; NaN for those that a kernel lacks


class Memory(NamedTuple):
    """The encoded source for the decoder."""

    pairs: Pairs  # keys and values of the source for each layer of the decoder
    mask: Tensor  # (B, 1, 1, S) bool
    vectors: Tensor  # (B, V, W) vectors of the target words; B is 1 where they do not depend on the problem

    def look_up(self, owners: Tensor, words: Tensor) -> Tensor:
        """The vectors (..., W) of `words` (...) for the sources with indices `owners` (...)."""
        if self.vectors.shape[0] == 1:
            return F.embedding(words, self.vectors[0])
        # F.embedding, since its gradient is the same in every run
        return F.embedding(owners * self.vectors.shape[1] + words, self.vectors.flatten(0, 1))


class SourceWords(nn.Module):
    """The embedding of source positions.

    One fact: name + word, and these with the number's code through a small network. Facts that share a position: the
    sum of name + word + a map of the code, of each fact's own, and this sum through a small network.
    """

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.name, self.word = nn.Embedding(size.names, size.width), nn.Embedding(size.words, size.width)
        if size.facts:
            self.maps = nn.Parameter(torch.randn(size.facts, size.code, size.width) * 0.05)
        else:
            self.code = nn.Linear(size.code, size.width)
        self.mix = nn.Linear(size.width, size.width)
        for embedding in (self.name, self.word):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, source: Source) -> Tensor:
        """Embed a source: (B, S, W). In training, some words and numbers are replaced by unknown ones."""
        words, codes = source.words, source.codes
        if self.training:
            drawn = torch.rand(words.shape, device=words.device)
            words = torch.where((words != PAD) & (drawn < self.size.word_dropout), UNKNOWN, words)
            unknown = torch.zeros(self.size.code, device=codes.device)
            unknown[0] = 1.0
            present = source.mask if source.positions is None else source.positions < source.mask.shape[1]
            hidden = (words == PAD) & present & (drawn < self.size.number_dropout)
            codes = torch.where(hidden[..., None], unknown, codes)
        embedded = self.name(source.names) + self.word(words)
        if source.positions is None:
            coded = self.code(codes)
        else:
            count = source.mask.shape[1]
            belongs = F.one_hot(source.positions, count + 1)[..., :count].to(embedded.dtype)  # (B, F, S)
            embedded = embedded + torch.bmm(codes.transpose(0, 1), self.maps).transpose(0, 1)
            embedded, coded = torch.bmm(belongs.transpose(1, 2), embedded), 0.0
        mixed: Tensor = embedded + self.mix(F.gelu(coded + embedded))
        return mixed


class TargetWords(nn.Module):
    """The vectors of the target words. Its buffers come from the vocabulary and are saved with the weights."""

    codes: Tensor  # (V, CODE_SIZE)
    values: Tensor  # (V,) 0 for words whose value is not a positive number
    groups: Tensor  # (V,) index of the word's parameter

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.register_buffer("codes", torch.zeros(size.targets, size.code))
        self.register_buffer("values", torch.zeros(size.targets))
        self.register_buffer("groups", torch.zeros(size.targets, dtype=torch.int64))
        self.word, self.group = nn.Embedding(size.targets, size.width), nn.Embedding(size.groups, size.width)
        self.code, self.mix = nn.Linear(size.code, size.width), nn.Linear(size.width, size.width)
        if size.quantities:
            self.fit = nn.Linear(size.quantities * FIT_SIZE, size.width, bias=False)
        for embedding in (self.word, self.group):
            nn.init.normal_(embedding.weight, std=0.1)

    def forward(self, quantities: Tensor) -> Tensor:
        """The vectors (B, V, W) of the target words for problems with these quantities (B, Q).

        Where words mean the same for every problem, B is 1.
        """
        quantities = quantities[:, :self.size.quantities] if self.size.quantities else quantities.new_zeros((1, 0))
        group = self.group(self.groups)
        inputs = (self.code(self.codes) + group)[None]
        if self.size.quantities:
            inputs = inputs + self.fit(fit_numbers(quantities, self.values))
        vectors: Tensor = self.word.weight + group + self.mix(F.gelu(inputs))
        return vectors


class ResolvedWords(nn.Module):
    """The combination of a target word's vector with the quantities that the word resolves, for reading and scoring.

    A fixed word has one answer to all prefixes.
    """

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.fixed = size.fixed_words
        if self.fixed:
            self.read, self.answer = nn.Linear(size.width, size.width), _feed_forward(size)
            return
        self.quantity = nn.Parameter(torch.empty(size.derived, RESOLVED_SIZE, size.width))
        nn.init.normal_(self.quantity, std=0.1)
        self.read, self.ask = nn.Linear(size.width, size.width), nn.Linear(size.width, size.width)
        self.answer = _feed_forward(size)

    def forward(self, vectors: Tensor, resolved: Tensor) -> Tensor:
        """The vectors (..., W) that the decoder reads, from word vectors (..., W) and resolved quantities (..., D)."""
        mixed: Tensor = vectors + self.read(F.gelu(self._combined(vectors, resolved)))
        return mixed

    def score(self, states: Tensor, position: Tensor, vectors: Tensor, resolved: Tensor) -> Tensor:
        """Score words after the decoder's states (positions, W): (R,).

        Word r has the vector `vectors[r]`, resolves the quantities `resolved[r]` and follows the state with the index
        `position[r]`. Shapes: `position` (R,), `vectors` (R, W), `resolved` (R, D).
        """
        combined = self._combined(vectors, resolved)
        if not self.fixed:
            combined = combined + F.embedding(position, self.ask(states))
        vectors = vectors + self.answer(F.gelu(combined))
        return (F.embedding(position, states) * vectors).sum(-1) / math.sqrt(states.shape[-1])

    def score_all(self, states: Tensor, vectors: Tensor) -> Tensor:
        """Score all fixed words (V, W) after states (positions, W): (positions, V)."""
        answers = vectors + self.answer(F.gelu(vectors))
        scores: Tensor = states @ answers.T / math.sqrt(states.shape[-1])
        return scores

    def _combined(self, vectors: Tensor, resolved: Tensor) -> Tensor:
        return vectors if self.fixed else resolved_numbers(resolved) @ self.quantity.flatten(0, 1) + vectors


class Translator(nn.Module):
    """The whole network. Its parts are child modules, so that the Hugging Face model can own the same children."""

    def __init__(self, size: Dimensions) -> None:
        super().__init__()
        self.size = size
        self.source = SourceWords(size)
        self.encoder = nn.ModuleList(EncoderLayer(size) for _ in range(size.layers))
        self.encoded = nn.LayerNorm(size.width)
        self.target = TargetWords(size)
        self.settled = ResolvedWords(size)
        self.position = nn.Embedding(size.longest, size.width)
        self.decoder = nn.ModuleList(DecoderLayer(size) for _ in range(size.depth))
        self.decoded = nn.LayerNorm(size.width)
        if size.judge:
            self.judge = Judge(size)
        nn.init.normal_(self.position.weight, std=0.1)

    @classmethod
    def of(cls, vocabulary: Vocabulary, **options: Any) -> Translator:
        """Make an untrained translator; `options` are fields of Dimensions."""
        return cls(Dimensions.of(vocabulary, **options)).describe(vocabulary)

    @classmethod
    def of_arrays(cls, size: Dimensions, state: Tensors) -> Translator:
        """Make a translator in evaluation mode from its state as arrays by name (see `arrays`)."""
        with torch.random.fork_rng(devices=[]):  # the first weights are replaced: they use up no random numbers
            model = cls(size)
        model.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in state.items()}, assign=True)
        return model.eval()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as arrays by name. `numpy_translator` predicts from it without torch."""
        return {name: tensor.detach().cpu().contiguous().numpy().copy() for name, tensor in self.state_dict().items()}

    def describe(self, vocabulary: Vocabulary) -> Translator:
        """Fill the buffers that describe the target words; return the translator."""
        for name, tensor in described(vocabulary).items():
            self.get_buffer(name).copy_(tensor)
        return self

    def grown(self, vocabulary: Vocabulary) -> Translator:
        """A copy for an extended vocabulary.

        New source words begin with the weights of <unknown>, new quantities with weights of 0.
        """
        size = Dimensions.of(vocabulary)
        size = replace(self.size, names=size.names, words=size.words, targets=size.targets, groups=size.groups,
                       derived=size.derived, quantities=size.quantities if self.size.quantities else 0,
                       longest=max(size.longest, self.size.longest))
        other = Translator(size)
        with torch.no_grad():
            for embedding in (other.source.name, other.source.word):
                old = self.source.name if embedding is other.source.name else self.source.word
                embedding.weight.copy_(old.weight[UNKNOWN].expand_as(embedding.weight))
            if not size.fixed_words:
                other.settled.quantity.zero_()
                other.target.fit.weight.zero_()
            if size.judge:
                other.judge.quantity.weight.zero_()
            weights = self.state_dict()
            for name, tensor in other.state_dict().items():
                tensor[tuple(slice(length) for length in weights[name].shape)] = weights[name]
        return other.describe(vocabulary).train(self.training)

    def encode(self, source: Source) -> Memory:
        """Encode the source. The result is used in every step of every hypothesis."""
        return self.memory(self.read(source), source.mask, source.quantities)

    def read(self, source: Source) -> Tensor:
        """The encoder's states (B, S, W) for a source."""
        x = self.source(source)
        for layer in self.encoder:
            x = layer(x, source.mask[:, None, None, :])
        states: Tensor = self.encoded(x)
        return states

    def memory(self, states: Tensor, mask: Tensor, quantities: Tensor) -> Memory:
        """The decoder's memory from the encoder's states (B, S, W), their mask (B, S) and the quantities (B, Q)."""
        pairs = tuple(layer.cross.pairs(states) for layer in self.decoder)  # type: ignore[union-attr, operator]
        return Memory(pairs, mask[:, None, None, :], self.target(quantities))

    def decode(self, x: Tensor, pairs: Pairs, mask: Tensor | None) -> Tensor:
        """Read words (B, T, W): the states (B, T, W) after each word.

        If the memory's pairs and mask have fewer sources than there are sentences (in training), each source has
        equally many sentences, in order.
        """
        x = x + self.position(torch.arange(x.shape[1], device=x.device))
        for number, layer in enumerate(self.decoder):
            x = layer(x, pairs[number], mask)
        decoded: Tensor = self.decoded(x)
        return decoded

    def slowness(self, states: Tensor, mask: Tensor, vectors: Tensor, listed: Listed) -> Tensor:
        """The judge's estimates (B, N) for configurations, from the encoder's states, their mask and word vectors."""
        owners = torch.arange(len(vectors), device=vectors.device)[:, None]  # one, where all sources share the vectors
        flat = (owners * vectors.shape[1])[..., None] + listed.words
        sums = (F.embedding(flat, vectors.flatten(0, 1)) * (listed.words != PAD)[..., None]).sum(2)
        estimate: Tensor = self.judge(sums, listed.resolved, states, mask)
        return estimate

    def forward(self, source: Source, words: Tensor, resolved: Tensor, choices: Choices) -> Tensor:
        """Score the choices with teacher forcing: (R,), log-probabilities up to a constant for each position.

        `words` (B, T) begin with <begin> and lack the last word; `resolved` (B, T, D) are the quantities they resolve.
        """
        return self.scores_and_slowness(source, words, resolved, choices, None)[0]

    def scores_and_slowness(self, source: Source, words: Tensor, resolved: Tensor, choices: Choices,
                            listed: Listed | None) -> tuple[Tensor, Tensor | None]:
        """The scores of `forward`, and the judge's estimates (B, N) of the `listed` configurations, if any."""
        states = self.read(source)
        memory = self.memory(states, source.mask, source.quantities)
        estimate = None if listed is None else self.slowness(states, source.mask, memory.vectors, listed)
        each = words.shape[0] // states.shape[0]  # sentences of one source
        owners = torch.arange(words.shape[0], device=words.device)[:, None] // each
        x = self.settled(memory.look_up(owners, words), resolved)
        decoded = self.decode(x, memory.pairs, memory.mask).flatten(0, 1)
        if self.size.fixed_words:
            every = self.settled.score_all(decoded, memory.vectors[0])
            return every[choices.position, choices.words], estimate
        vectors = memory.look_up(choices.position // (words.shape[1] * each), choices.words)
        scores: Tensor = self.settled.score(decoded, choices.position, vectors, choices.resolved)
        return scores, estimate


def described(vocabulary: Vocabulary) -> dict[str, Tensor]:
    """The buffers that describe the target words, by their names in the state."""
    return {name: torch.from_numpy(array) for name, array in described_arrays(vocabulary).items()}
