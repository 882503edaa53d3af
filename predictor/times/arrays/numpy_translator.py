"""NumpyTranslator: a Translator for prediction, computed with NumPy alone, as a source of next words.

The function is the same, rearranged as `seqtune.predictor.networks.numpy_layers` describes. In addition:
- A source position depends on one fact, so the vectors of facts are remembered; most facts occur again.
- Target words with equal values fit a problem equally, and words without a number need no problem.
- A word adds only the quantities that it resolves itself to the sum of its prefix.
- Where every hypothesis has one word that may follow, nothing is scored: the word is read together with the next one.
- The last product of a score is made once for a hypothesis, not for each word after it.
Shapes: Q queries, H hypotheses, R words to be scored, T words read at once, S source positions, V target vocabulary,
D derived quantities, W width, E layers of the decoder, A heads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ...networks.dimensions import Dimensions
from ...networks.numpy_layers import ArrayLayer, Floats, Linear, Tensors, attend, centred, gelu, soften, unit
from ...sequence.beam import Allowed, Scores
from ...sequence.vocabulary import BEGIN, Vocabulary
from .fact_vectors import FactVectors
from .word_vectors import WordVectors, resolved_numbers


@dataclass(frozen=True, eq=False)
class SourceMemory:
    """The encoded sources of all queries."""

    keys: Floats  # (E, Q, A, W/A, S)
    values: Floats  # (E, Q, A, S, W/A)
    bias: Floats | None  # (Q, 1, 1, S) -inf at padding; None: there is none
    vectors: Floats  # (Q, V, W) vectors of the target words
    mean: Floats  # (Q, W) mean of the encoder's states


@dataclass(frozen=True, eq=False)
class NumpyDecoding:
    """The state of a beam search."""

    memory: SourceMemory
    owners: NDArray[np.int64]  # (H,) number of the query
    past: Floats  # (E, H, words, 2, A, W/A) keys and values of the words that were read
    waiting: Floats  # (H, T, W) what the decoder reads next, without positions
    sums: Floats  # (H, W) sum of what the prefix's resolved quantities add
    resolved: NDArray[np.bool_]  # (H, D) the quantities in the sum
    offered: Floats | None = None  # (R, W) the sums with each word that may follow; None: nothing was scored

    def follow(self, after: NDArray[np.int64]) -> NumpyDecoding:
        """The state in which hypothesis i is the old hypothesis `after[i]`."""
        if len(after) == len(self.owners) and (after[:-1] < after[1:]).all():  # each has one successor: all as before
            return self
        return NumpyDecoding(self.memory, self.owners[after], self.past[:, after], self.waiting[after],
                             self.sums[after], self.resolved[after])


class NumpyTranslator:
    """The translator as a `NextWord` of the beam search."""

    def __init__(self, size: Dimensions, tensors: Tensors, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._size, self._heads = size, (size.heads, size.width // size.heads)
        self._facts, self._words = FactVectors(tensors, vocabulary), WordVectors(tensors, vocabulary)
        self._encoder = [ArrayLayer(tensors, f"encoder.{number}", size.heads, False) for number in range(size.layers)]
        self._decoder = [ArrayLayer(tensors, f"decoder.{number}", size.heads, True) for number in range(size.depth)]
        first, *rest = (Linear.of(tensors, f"decoder.{number}.cross.pair") for number in range(size.depth))
        self._pairs = first.joined(*rest).after(tensors, "encoded")
        self._gain = tensors["encoded.weight"] * np.float32(math.sqrt(size.width))
        self._offset = tensors["encoded.bias"]
        self._last: dict[tuple[Problem, Device], tuple[Floats, Floats]] = {}  # vectors and means of the last queries
        self._position = centred(tensors["position.weight"])
        self._quantity = tensors["settled.quantity"]
        self._read_resolved = Linear.of(tensors, "settled.read")
        inner, outer = Linear.of(tensors, "settled.answer.0"), Linear.of(tensors, "settled.answer.2")
        self._answer = inner
        # what scoring needs of a state: the query that is added to words, its product with the answer's last layer
        # (whose bias is the same for all words after a hypothesis), and the state itself (logit = state · vector)
        scale = 1 / math.sqrt(size.width)
        inward = Linear(np.ascontiguousarray(outer.weight.T), np.zeros(size.hidden, np.float32)).times(scale)
        self._ask = Linear.of(tensors, "settled.ask").joined(inward).after(tensors, "decoded")
        self._state = tensors["decoded.weight"], tensors["decoded.bias"] * np.float32(scale)

    def start(self, queries: Sequence[tuple[Problem, Device]], allowed: Allowed) -> tuple[NumpyDecoding, Scores]:
        """Begin one hypothesis without words for each query, and score the words allowed first."""
        count, derived = len(queries), self._size.derived
        state = NumpyDecoding(
            self._read_source(queries), np.arange(count),
            np.zeros((self._size.depth, count, 0, 2, *self._heads), np.float32),
            np.zeros((count, 0, self._size.width), np.float32), np.zeros((count, self._size.width), np.float32),
            np.zeros((count, derived), np.bool_))
        begin = Allowed(np.arange(count), np.full(count, BEGIN), np.full((count, derived), np.nan, np.float32))
        return self.advance(state, begin, allowed)

    def advance(self, state: NumpyDecoding, words: Allowed, allowed: Allowed) -> tuple[NumpyDecoding, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        offered = state.offered
        state = state.follow(words.after)
        vectors = state.memory.vectors[state.owners, words.words]
        if offered is None or words.rows is None:
            sums = self._resolve(words, state.resolved, state.sums)
        else:
            sums = offered[words.rows]
        read = vectors + self._read_resolved(gelu(sums + vectors))
        state = NumpyDecoding(state.memory, state.owners, state.past,
                              np.concatenate([state.waiting, centred(read)[:, None]], axis=1), sums,
                              ~np.isnan(words.resolved))
        if len(allowed.words) == len(words.words):  # one word after each: there is nothing to choose
            return state, np.zeros(len(allowed.words), np.float32)
        states, past = self._read(state)
        scores, sums = self._scores(states, state, allowed)
        return replace(state, past=past, waiting=state.waiting[:, :0], offered=sums), scores

    def encoded(self, problem: Problem, device: Device) -> tuple[Floats, Floats]:
        """The vectors (V, W) of the target words for a query, and the mean (W,) of the encoder's states.

        The queries that were encoded last are remembered, so after a search of these tasks this costs nothing.
        """
        encoded = self._last.get((problem, device))  # read once: other threads replace the dictionary
        if encoded is None:
            memory = self._read_source([(problem, device)])
            encoded = memory.vectors[0], memory.mean[0]
        return encoded

    def _read_source(self, queries: Sequence[tuple[Problem, Device]]) -> SourceMemory:
        x, mask, quantities = self._facts.read(queries)
        count, length, _ = x.shape
        bias = None if mask.all() else np.where(mask, 0, -np.inf).astype(np.float32)[:, None, None, :]
        for layer in self._encoder:
            query, keys, values = np.moveaxis(layer.words(unit(x)).reshape(count, length, 3, *self._heads), 2, 0)
            x += layer.out(attend(query, keys, values, bias))
            layer.feed(x)
        states = unit(x)
        pairs = self._pairs(states).reshape(count, length, self._size.depth, 2, *self._heads)
        share = (mask / mask.sum(axis=1, keepdims=True)).astype(np.float32)
        mean = (share[:, None] @ states)[:, 0]
        memory = SourceMemory(np.ascontiguousarray(pairs[:, :, :, 0].transpose(2, 0, 3, 4, 1)),
                              np.ascontiguousarray(pairs[:, :, :, 1].transpose(2, 0, 3, 1, 4)), bias,
                              self._words.vectors(quantities), mean * self._gain + self._offset)
        self._last = dict(zip(queries, zip(memory.vectors, memory.mean, strict=True), strict=True))
        return memory

    def _resolve(self, words: Allowed, before: NDArray[np.bool_], sums: Floats) -> Floats:
        """Add to sums (rows, W) what the quantities of words add that are not in them before (rows, D)."""
        resolved, columns = words.resolved, words.fresh
        if columns is None:
            columns = np.flatnonzero(np.logical_or.reduce(resolved == resolved))
        if not len(columns):
            return sums
        values = resolved[:, columns]
        chosen = (values == values) > before[:, columns]  # a number is equal to itself, NaN is not
        numbers = resolved_numbers(values if chosen.all() else np.where(chosen, values, np.float32(np.nan)))
        added: Floats = sums + numbers @ self._quantity[columns].reshape(-1, sums.shape[1])
        return added

    def _read(self, state: NumpyDecoding) -> tuple[Floats, Floats]:
        """Read the waiting words: the states (H, W) after the last, scaled to length 1, and the new past."""
        memory, waiting, done = state.memory, state.waiting, state.past.shape[2]
        count, length, width = waiting.shape
        x = (waiting + self._position[done:done + length]).reshape(-1, width)
        causal = None
        if length > 1:
            later = np.arange(done + length) > done + np.arange(length)[:, None]
            causal = np.where(later, -np.inf, 0).astype(np.float32)
        past = np.empty((len(self._decoder), count, done + length, 2, *self._heads), np.float32)
        past[:, :, :done] = state.past
        slots = _Slots.of(state.owners, len(memory.vectors))
        for number, layer in enumerate(self._decoder):
            parts = layer.words(unit(x)).reshape(count, length, 3, *self._heads)
            past[number, :, done:] = parts[:, :, 1:]
            x += layer.out(attend(parts[:, :, 0], past[number, :, :, 0], past[number, :, :, 1], causal).reshape(
                -1, width))
            query = layer.cross_query(unit(x)).reshape(count, length, *self._heads)
            x += layer.cross_out(slots.attend(query, memory.keys[number], memory.values[number], memory.bias).reshape(
                -1, width))
            layer.feed(x)
        return unit(x.reshape(count, length, width)[:, -1]), past

    def _scores(self, states: Floats, state: NumpyDecoding, allowed: Allowed) -> tuple[Scores, Floats]:
        """Score the allowed words, up to a constant for each hypothesis; also the sums with what each resolves."""
        after, width = allowed.after, self._size.width
        asked, (gain, offset) = self._ask(states)[after], self._state
        vectors = state.memory.vectors[state.owners[after], allowed.words]
        sums = self._resolve(allowed, state.resolved[after], state.sums[after])
        combined = sums + vectors
        combined += asked[:, :width]
        hidden = gelu(self._answer(gelu(combined)))
        scores: Scores = np.einsum("ij,ij->i", (states * gain + offset)[after], vectors)
        scores += np.einsum("ij,ij->i", asked[:, width:], hidden)
        return scores, sums


@dataclass(frozen=True, eq=False)
class _Slots:
    """The hypotheses of each query side by side, so that each query's source is read once: (Q, slots) with gaps."""

    queries: int
    count: int  # slots of a query
    owners: NDArray[np.int64]  # (H,)
    slot: NDArray[np.int64] | None  # (H,) within the query; None: one query, whose hypotheses are in their order

    @classmethod
    def of(cls, owners: NDArray[np.int64], queries: int) -> _Slots:
        if queries == 1:
            return cls(1, len(owners), owners, None)
        order = np.argsort(owners, kind="stable")
        counts = np.bincount(owners, minlength=queries)
        slot = np.empty_like(owners)
        slot[order] = np.arange(len(owners)) - np.repeat(np.cumsum(counts) - counts, counts)
        return cls(queries, int(counts.max()), owners, slot)

    def attend(self, query: Floats, keys: Floats, values: Floats, bias: Floats | None) -> Floats:
        """Attend from (H, T, A, W/A) to the sources' keys (Q, A, W/A, S) and values (Q, A, S, W/A): (H, T, W)."""
        shape = query.shape
        if self.slot is None:
            side_by_side = query[None]
        else:
            side_by_side = np.zeros((self.queries, self.count, *shape[1:]), np.float32)
            side_by_side[self.owners, self.slot] = query
        rows: Any = side_by_side.reshape(self.queries, -1, *shape[2:]).transpose(0, 2, 1, 3)  # (Q, A, slots * T, W/A)
        scores: Floats = rows @ keys
        if bias is not None:
            scores += bias
        soften(scores)
        attended = (scores @ values).transpose(0, 2, 1, 3).reshape(self.queries, self.count, shape[1], -1)
        return attended[0] if self.slot is None else attended[self.owners, self.slot]
