"""Decoding: a Translator as the beam search asks it, one word at a time, with the keys and values of the past kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ..networks.transformer import Pairs
from ..sequence.beam import Allowed, Scores
from ..sequence.vocabulary import BEGIN, Batch, Vocabulary
from .translator import Memory, Source, Translator


class Decoding(NamedTuple):
    """Where a translation stands: which problem each hypothesis belongs to, and what is kept of it."""

    memory: Memory  # of every problem
    chosen: tuple[Pairs, Tensor]  # the memory's pairs and mask for every hypothesis
    owners: NDArray[np.int64]  # hypothesis -> problem
    past: Pairs


class TranslatorWords:
    """The Translator as a `NextWord` of the beam search; it is put into evaluation mode."""

    def __init__(self, model: Translator, vocabulary: Vocabulary) -> None:
        self.model = model.eval()
        self.vocabulary = vocabulary

    @torch.inference_mode()
    def start(self, questions: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[Decoding, Scores]:
        """One empty hypothesis per question."""
        batch = Batch.of([self.vocabulary.source(problem, device) for problem, device in questions])
        memory = self.model.encode(Source.of(batch))
        settled = np.full((len(questions), len(self.vocabulary.derived)), np.nan, np.float32)
        begin = Allowed(np.arange(len(questions)), np.full(len(questions), BEGIN), settled)
        state = Decoding(memory, (memory.pairs, memory.mask), begin.after, ())
        return self._step(state, None, begin, allowed)

    @torch.inference_mode()
    def advance(self, state: Decoding, said: Allowed, allowed: Allowed) -> tuple[Decoding, Scores]:
        """New hypotheses: each an old one with one more word."""
        owners = state.owners[said.after]
        chosen = state.chosen if np.array_equal(owners, state.owners) else state.memory.select(torch.from_numpy(owners))
        rows = torch.from_numpy(said.after)
        past = tuple((keys[rows], values[rows]) for keys, values in state.past)
        return self._step(Decoding(state.memory, chosen, owners, ()), past, said, allowed)

    def _step(self, state: Decoding, past: Pairs | None, said: Allowed, allowed: Allowed) -> tuple[Decoding, Scores]:
        """Reads one word per hypothesis and scores those allowed next."""
        model, memory = self.model, state.memory
        words = memory.look_up(torch.from_numpy(state.owners), torch.from_numpy(said.words))
        x = model.settled(words, torch.from_numpy(said.settled))
        states, past = model.decode(x[:, None], *state.chosen, past)
        after = torch.from_numpy(allowed.after)
        vectors = memory.look_up(torch.from_numpy(state.owners[allowed.after]), torch.from_numpy(allowed.words))
        scores = model.settled.score(states[:, 0], after, vectors, torch.from_numpy(allowed.settled))
        return state._replace(past=past), scores.numpy()
