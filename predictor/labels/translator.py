"""LabelTranslator: an encoder-decoder transformer from a short source sentence to a tuner's choice.

It has the blocks of `seqtune.predictor.times.translator` and a source of eight tokens (batch, channels and images of
what is read and written, filter, work, words) instead of one per fact, and its target words mean the same for every
problem; so a label costs a tenth of what it costs there, and a quarter of a million of them can be learned from on two
cores.
The decoder reads the kernel's word and the values so far; <begin> alone asks which solver is fastest.
Shapes: B questions, N numbers, T words read, V words of the vocabulary, W width, C code.
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

from seqtune.data.queries import Questions
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ..networks.dimensions import Dimensions
from ..networks.hypotheses import Hypotheses
from ..networks.transformer import DecoderLayer, EncoderLayer, Pairs
from ..sequence.beam import Allowed, Scores
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import BEGIN, UNKNOWN, Vocabulary
from .inputs import CODE, MAGNITUDE_SIZE, NUMBERS, SIZES, TOKENS, Floats, Inputs
from .short_attention import ByteDropout, ShortAttention


class Source(NamedTuple):
    """A batch of questions as tensors."""

    codes: Tensor  # (B, N, C)
    magnitudes: Tensor  # (B, MAGNITUDE_SIZE)
    words: Tensor  # (B, WORDS + 1) int64

    @classmethod
    def of(cls, inputs: Inputs, rows: NDArray[np.int64]) -> Source:
        """Some of the questions."""
        found, magnitudes, words = inputs.batch(rows)
        return cls(torch.from_numpy(found), torch.from_numpy(magnitudes), torch.from_numpy(words))


class Reader(nn.Module):
    """The source sentence: each number through a map of its own, summed by token, then a small network."""

    belongs: Tensor  # (TOKENS, N) 1 where the number belongs to the token

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

    def forward(self, source: Source) -> Tensor:
        """(B, TOKENS, W)."""
        words = source.words
        if self.training:
            words = torch.where(torch.rand(words.shape) < self.size.word_dropout, UNKNOWN, words)
        numbers = torch.bmm(source.codes.transpose(0, 1), self.number).transpose(0, 1)  # (B, N, W)
        tokens = self.belongs @ numbers + self.token
        own = torch.zeros_like(tokens)
        own[:, TOKENS.index("work")] = self.work(source.magnitudes)
        own[:, TOKENS.index("words")] = self.word(words).sum(1)
        tokens = tokens + own
        mixed: Tensor = tokens + self.mix(F.gelu(tokens))
        return mixed


class TargetVectors(nn.Module):
    """The vectors of the target vocabulary: a word's own, its parameter's, and a view of its value's code."""

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
        """(...,) -> (..., W)."""
        group = self.group(self.groups[words])
        vectors: Tensor = self.word(words) + group + self.mix(F.gelu(self.code(self.codes[words]) + group))
        return vectors


class SentenceModel(nn.Module):
    """What is trained on sentences and asked for next words. `asked` vectors read words in, `answered` ones score them:
    to have said a value and to be about to say it are different things."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__()
        self.size = size
        self.asked, self.answered = TargetVectors(size, vocabulary), TargetVectors(size, vocabulary)

    def encode(self, source: Source) -> Pairs:
        """What the decoder needs of the source: tensors whose first axis is the question."""
        raise NotImplementedError

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Words (B, T) -> states (B, T, W) after each, and a past with which one more word goes on."""
        raise NotImplementedError

    def score(self, states: Tensor, words: Tensor) -> Tensor:
        """States (B, W) and the words (K,) that may follow -> scores (B, K)."""
        scores: Tensor = states @ self.answered(words).T / math.sqrt(self.size.width)
        return scores

    def forward(self, source: Source, said: Tensor, following: Sequence[Tensor]) -> list[Tensor]:
        """Teacher forcing for sentences of one kernel: `said` (B, T) is read, `following[t]` may come after t + 1
        words. Scores (B, K_t) per step."""
        states, _ = self.decode(said, self.encode(source))
        return [self.score(states[:, step], words) for step, words in enumerate(following)]


class LabelTranslator(SentenceModel):
    """The transformer. Its past is keys and values per layer, as is its memory."""

    def __init__(self, size: Dimensions, vocabulary: Vocabulary) -> None:
        super().__init__(size, vocabulary)
        self.reader = Reader(size)
        self.encoder = nn.ModuleList(EncoderLayer(size, ShortAttention, ByteDropout) for _ in range(size.layers))
        self.encoded = nn.LayerNorm(size.width)
        self.position = nn.Embedding(size.longest, size.width)
        self.decoder = nn.ModuleList(DecoderLayer(size, ShortAttention, ByteDropout) for _ in range(size.layers))
        self.decoded = nn.LayerNorm(size.width)
        nn.init.normal_(self.position.weight, std=0.1)

    @classmethod
    def of_arrays(cls, size: Dimensions, state: Mapping[str, Floats], vocabulary: Vocabulary) -> LabelTranslator:
        """From what `arrays` gives."""
        found = cls(size, vocabulary)
        found.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
        return found.eval()

    def arrays(self) -> dict[str, Floats]:
        """Its state, from which `seqtune.predictor.labels.numpy_translator` predicts without torch."""
        return {name: tensor.detach().float().cpu().numpy() for name, tensor in self.state_dict().items()}

    def encode(self, source: Source) -> Pairs:
        """Keys and values of the source for every layer of the decoder."""
        x = self.reader(source)
        for layer in self.encoder:
            x = layer(x, None)
        x = self.encoded(x)
        return tuple(layer.cross.pairs(x) for layer in self.decoder)  # type: ignore[union-attr, operator]

    def decode(self, words: Tensor, memory: Pairs, past: Pairs = ()) -> tuple[Tensor, Pairs]:
        """Words (B, T) -> states (B, T, W) after each, and keys and values so far; `past` goes on after an earlier
        call with one more word."""
        done = past[0][0].shape[2] if past else 0
        x = self.asked(words) + self.position(torch.arange(done, done + words.shape[1]))
        so_far = []
        for number, layer in enumerate(self.decoder):
            x, pair = layer(x, memory[number], None, past[number] if past else None)
            so_far.append(pair)
        decoded: Tensor = self.decoded(x)
        return decoded, tuple(so_far)


class LabelWords:
    """A model of sentences as a `NextWord` of the beam search; it is put into evaluation mode."""

    def __init__(self, model: SentenceModel, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary
        with torch.inference_mode():
            self._answers = model.answered(torch.arange(len(vocabulary.targets)))

    @torch.inference_mode()
    def start(self, questions: Sequence[tuple[Problem, Device]] | Questions,
              allowed: Allowed) -> tuple[Hypotheses, Scores]:
        """Begin one hypothesis without words for each query, and score the words allowed first.

        <begin> is read for these scores alone: it belongs to no hypothesis's past.
        """
        inputs = Inputs.of(Questions.of(questions), self.vocabulary.words)
        hypotheses = Hypotheses.of(self.model.encode(Source.of(inputs, np.arange(len(questions)))))
        states, _ = self.model.decode(torch.full((len(questions), 1), BEGIN), hypotheses.memory)
        return hypotheses, self._scores(states, allowed)

    @torch.inference_mode()
    def advance(self, state: Hypotheses, said: Allowed, allowed: Allowed) -> tuple[Hypotheses, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        state = state.follow(said)
        memory, _ = state.selected
        states, past = self.model.decode(torch.from_numpy(said.words)[:, None], memory, state.past)
        return replace(state, past=past), self._scores(states, allowed)

    def _scores(self, states: Tensor, allowed: Allowed) -> Scores:
        vectors = self._answers[torch.from_numpy(allowed.words)]
        scores = (states[:, 0][torch.from_numpy(allowed.after)] * vectors).sum(-1) / math.sqrt(self.model.size.width)
        found: Scores = scores.numpy()
        return found
