"""Decoding: a Translator as the beam search's source of next words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.vocabulary import BEGIN, SourceBatch, Vocabulary
from .hypotheses import Hypotheses
from .translator import Memory, Source, Translator


@dataclass(frozen=True)
class DecodingState:
    """The hypotheses of a search and the encoded problems."""

    memory: Memory  # of every query
    hypotheses: Hypotheses


class TranslatorWords:
    """A Translator as a `NextWord` of the beam search; the constructor puts it into evaluation mode."""

    def __init__(self, model: Translator, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary

    @torch.inference_mode()
    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[DecodingState, Scores]:
        """Begin one hypothesis without words for each query, and score the words allowed first."""
        batch = SourceBatch.of([self.vocabulary.source(problem, device) for problem, device in queries])
        memory = self.model.encode(Source.of(batch))
        hypotheses = Hypotheses.of(memory.pairs, memory.mask)
        resolved = np.full((len(queries), len(self.vocabulary.derived)), np.nan, np.float32)
        begin = Allowed(hypotheses.owners, np.full(len(queries), BEGIN), resolved)
        return self._read(DecodingState(memory, hypotheses), begin, allowed)

    @torch.inference_mode()
    def advance(self, state: DecodingState, words: Allowed, allowed: Allowed) -> tuple[DecodingState, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        return self._read(replace(state, hypotheses=state.hypotheses.follow(words)), words, allowed)

    def _read(self, state: DecodingState, words: Allowed, allowed: Allowed) -> tuple[DecodingState, Scores]:
        """Read one word for each hypothesis and score the words allowed next."""
        model, memory, hypotheses = self.model, state.memory, state.hypotheses
        vectors = memory.look_up(torch.from_numpy(hypotheses.owners), torch.from_numpy(words.words))
        x = model.settled(vectors, torch.from_numpy(words.resolved))
        states, past = model.decode(x[:, None], *hypotheses.selected, hypotheses.past or None)
        after = torch.from_numpy(allowed.after)
        vectors = memory.look_up(torch.from_numpy(hypotheses.owners[allowed.after]), torch.from_numpy(allowed.words))
        scores = model.settled.score(states[:, 0], after, vectors, torch.from_numpy(allowed.resolved))
        return replace(state, hypotheses=replace(hypotheses, past=past)), scores.numpy()
