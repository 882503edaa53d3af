"""Translators with random weights, and the comparison of a translator with its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.sequence.beam import Allowed, NextWord, Scores
from seqtune.predictor.sequence.vocabulary import BEGIN, SourceBatch, Vocabulary
from seqtune.predictor.translator.translator import Memory, Source, Translator


def small_translator(vocabulary: Vocabulary, width: int = 16, seed: int = 0, **size: float) -> Translator:
    """A translator of the seed's weights: one layer of two heads where `size` does not say otherwise."""
    torch.manual_seed(seed)
    return Translator.of(vocabulary, width=width, **{"layers": 1, "heads": 2, "hidden": width, **size})


def draw_norms(model: torch.nn.Module) -> None:
    """Draw the gains and offsets of the layer norms, which training starts at ones and zeros."""
    for name, weight in model.named_parameters():
        if "norm" in name or "coded" in name:
            torch.nn.init.normal_(weight, mean=float(name.endswith("weight")), std=0.3)


class NetworkState(NamedTuple):
    """Hypotheses of a search: the words of each, read by the network from the begin at every step."""

    memory: Memory  # of every query
    owners: NDArray[np.int64]  # (hypothesis,) number of the query
    words: NDArray[np.int64]  # (hypothesis, T)
    resolved: NDArray[np.float32]  # (hypothesis, T, derived)


class NetworkWords:
    """The PyTorch network as a source of next words, as training reads sentences: slow, for comparisons."""

    def __init__(self, model: Translator, vocabulary: Vocabulary) -> None:
        self.model, self.vocabulary = model.eval(), vocabulary

    @torch.inference_mode()
    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[NetworkState, Scores]:
        source = Source.of(SourceBatch.of([self.vocabulary.source(problem, device) for problem, device in queries]))
        count, derived = len(queries), len(self.vocabulary.derived)
        state = NetworkState(self.model.encode(source), np.arange(count), np.full((count, 1), BEGIN),
                             np.full((count, 1, derived), np.nan, np.float32))
        return state, self._scores(state, allowed)

    @torch.inference_mode()
    def advance(self, state: NetworkState, words: Allowed, allowed: Allowed) -> tuple[NetworkState, Scores]:
        state = NetworkState(state.memory, state.owners[words.after],
                             np.concatenate([state.words[words.after], words.words[:, None]], axis=1),
                             np.concatenate([state.resolved[words.after], words.resolved[:, None]], axis=1))
        return state, self._scores(state, allowed)

    def _scores(self, state: NetworkState, allowed: Allowed) -> Scores:
        model, memory, owners = self.model, state.memory, torch.from_numpy(state.owners)
        x = model.settled(memory.look_up(owners[:, None], torch.from_numpy(state.words)),
                          torch.from_numpy(state.resolved))
        pairs = tuple((keys[owners], values[owners]) for keys, values in memory.pairs)
        last = model.decode(x, pairs, memory.mask[owners])[:, -1]
        after = torch.from_numpy(allowed.after)
        vectors = memory.look_up(owners[after], torch.from_numpy(allowed.words))
        scores: Scores = model.settled.score(last, after, vectors, torch.from_numpy(allowed.resolved)).numpy()
        return scores


class Compared:
    """A source of next words that compares the log-probabilities of the PyTorch model and of its arrays."""

    def __init__(self, model: NextWord[Any], arrays: NextWord[Any]) -> None:
        self.vocabulary = model.vocabulary
        self.worst, self.compared = 0.0, 0
        self._model, self._arrays = model, arrays

    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[Any, Scores]:
        return self._compare(self._model.start(queries, allowed), self._arrays.start(queries, allowed), allowed)

    def advance(self, state: Any, words: Allowed, allowed: Allowed) -> tuple[Any, Scores]:
        return self._compare(self._model.advance(state[0], words, allowed),
                             self._arrays.advance(state[1], words, allowed), allowed)

    def _compare(self, model: tuple[Any, Scores], arrays: tuple[Any, Scores], allowed: Allowed) -> tuple[Any, Scores]:
        differences = np.abs(_log_probabilities(model[1], allowed) - _log_probabilities(arrays[1], allowed))
        self.worst = max(self.worst, float(differences.max()))
        self.compared += len(differences)
        return (model[0], arrays[0]), model[1]


def _log_probabilities(scores: Scores, allowed: Allowed) -> NDArray[np.float64]:
    """The log-probabilities among the words that may follow the same hypothesis."""
    rows = [scores[allowed.after == hypothesis].astype(np.float64) for hypothesis in np.unique(allowed.after)]
    return np.concatenate([row - row.max() - np.log(np.exp(row - row.max()).sum()) for row in rows])
