"""NumpyTranslator: a Translator for prediction, computed without PyTorch, as a source of next words.

The function is the same, rearranged as `seqtune.predictor.translator.numpy_layers` describes. In addition:
- A source position depends on its facts alone, so their vectors are remembered; most facts occur again.
- Target words with equal values fit a problem equally, and words without a number need no problem.
- A word adds only the quantities that it resolves itself to the sum of its prefix.
- Where every hypothesis has one word that may follow, nothing is scored: the word is read together with the next one,
  which gives the same numbers.
- The last product of a score is made once for a hypothesis, not for each word after it.
- Fixed words are computed once, before all searches.
No number depends on the other queries of a search: sources lie one after the other, without padding, and products are
those of `seqtune.predictor.translator.rows`.
Shapes: Q queries, H hypotheses, R words to be scored, T words read at once, P source positions of all queries,
V target vocabulary, D derived quantities, W width, E layers of the decoder.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.devices.device import Device
from seqtune.kernels.operations.feature import Value
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.source_facts import own_facts, own_positions
from ..sequence.vocabulary import BEGIN, Vocabulary, Words
from .numpy_layers import Attended, Dimensions, Linear, NumpyLayer, Tensors
from .rows import Floats, Matrix, Numbers, centred, dots, gelu, unit
from .word_vectors import Chosen, FixedWords, WordVectors, resolved_numbers

AT_ONCE = 128  # rows that go through the encoder together: what lies between its products stays in the caches
MOST_REMEMBERED = 10_000  # facts; 5 MB at a width of 128
MOST_CHOSEN = 64  # sets of kernels whose words get vectors
MOST_MATRICES = 256  # sets of quantities that are resolved at once; 6 MB if each has eight


Fact = tuple[str, Value]  # name and value


class PositionVectors:
    """The encoder's input: the vectors of source positions, each remembered by the names and values of its facts.

    They are what `translator.SourceWords` computes, centred. At most `most` are remembered.
    """

    def __init__(self, tensors: Tensors, vocabulary: Vocabulary, most: int = MOST_REMEMBERED) -> None:
        self._vocabulary, self._most = vocabulary, most
        self._name, self._word = tensors["source.name.weight"], tensors["source.word.weight"]
        self._mix = Linear.of(tensors, "source.mix")
        self._maps = tensors.get("source.maps")  # of facts that share a position
        self._code = Linear.of(tensors, "source.code") if self._maps is None else None
        self._joined: dict[tuple[str, ...], Matrix] = {}  # the maps of a position's facts, by their names
        self._remembered: dict[tuple[Fact, ...], Floats] = {}

    def read(self, queries: Sequence[tuple[Problem, Device]]) -> tuple[Floats, Numbers, Floats]:
        """The vectors (position, W) of the source sentences, one after the other; their positions; and quantities.

        Shapes: positions (query,), quantities (query, quantity).
        """
        sources = [self._vocabulary.facts(problem, device) for problem, device in queries]
        sentences = [_positions(facts, own_positions(problem.type))
                     for facts, (problem, _) in zip(sources, queries, strict=True)]
        remembered = self._remember(dict.fromkeys(position for sentence in sentences for position in sentence))
        vectors = [remembered[position] for sentence in sentences for position in sentence]
        return (np.concatenate(vectors).reshape(len(vectors), -1), np.array([len(sentence) for sentence in sentences]),
                np.stack([self._vocabulary.fact_quantities(facts) for facts in sources]))

    def _remember(self, positions: Mapping[tuple[Fact, ...], None]) -> Mapping[tuple[Fact, ...], Floats]:
        """Vectors of these positions and of others. Threads share the dictionary: it only grows, or is replaced."""
        remembered = self._remembered
        fresh = [position for position in positions if position not in remembered]
        if len(remembered) + len(fresh) > self._most:
            remembered = self._remembered = {}
            fresh = list(positions)
        if fresh:
            sentence = self._vocabulary.sentence([fact for position in fresh for fact in position])
            embedded = self._name[sentence.names] + self._word[sentence.words]
            if self._code is not None:
                hidden = self._code(sentence.codes) + embedded
            else:
                ends = np.cumsum([len(position) for position in fresh]).tolist()
                hidden = embedded = np.concatenate([
                    self._sum(tuple([name for name, _ in position]), embedded[begin:end], sentence.codes[begin:end])
                    for position, begin, end in zip(fresh, [0, *ends], ends, strict=False)])
            remembered.update(zip(fresh, centred(embedded + self._mix(gelu(hidden))), strict=True))
        return remembered

    def _sum(self, names: tuple[str, ...], parts: Floats, codes: Floats) -> Floats:
        """The sum (1, W) of facts that share a position, given their embeddings (fact, W) and codes."""
        embedded: Floats = parts.sum(axis=0, keepdims=True)
        joined = self._joined.get(names)
        if joined is None:
            assert self._maps is not None
            type_name = names[0].partition(".")[0]
            order = [f"{type_name}.{name}" for name in own_facts(type_name)]
            maps = self._maps[[order.index(name) for name in names]]
            joined = self._joined[names] = Matrix(np.ascontiguousarray(maps.reshape(-1, maps.shape[2])))
        joined.add_to(embedded, codes.reshape(1, -1))
        return embedded


def _positions(facts: Sequence[Fact], shared: Numbers | None) -> list[tuple[Fact, ...]]:
    """The facts of each position of a sentence; `shared` tells the position of each fact."""
    if shared is None:
        return [(fact,) for fact in facts]
    ends = [*np.flatnonzero(np.diff(shared)) + 1, len(facts)]
    return [tuple(facts[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]


def _parts(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split queries, given the ends of their sources, into parts (first, last) of about AT_ONCE rows."""
    first = begin = 0
    for number, end in enumerate(ends, 1):
        if end - begin >= AT_ONCE or number == len(ends):
            yield first, number
            first, begin = number, end


@dataclass(frozen=True, eq=False)
class SourceMemory:
    """The encoded sources of all queries, one after the other."""

    layers: tuple[Attended, ...]  # of each layer of the decoder
    vectors: Floats  # (Q, V, W) vectors of the target words; V is 0 for fixed words
    mean: Floats  # (Q, W) mean of the encoder's states


@dataclass(frozen=True, eq=False)
class NumpyDecoding:
    """The state of a beam search."""

    memory: SourceMemory
    owners: Numbers  # (H,) number of the query
    past: tuple[Floats, ...]  # of each layer: (., words, 2 W) keys and values of the words that were read
    parents: Numbers  # (H,) index in the past
    waiting: Floats  # (H, T, W) what the decoder reads next, without positions
    sums: Floats  # (H, W) sum of what the prefix's resolved quantities add
    resolved: NDArray[np.bool_]  # (H, D) the quantities in the sum
    offered: Floats | None = None  # (R, W) the sums with each word that may follow; None: nothing was scored

    def follow(self, after: Numbers) -> NumpyDecoding:
        """The state in which hypothesis i is the old hypothesis `after[i]`."""
        if len(after) == len(self.owners) and (after[:-1] < after[1:]).all():  # each has one successor: all as before
            return self
        waiting = self.waiting if not self.waiting.size and len(after) == len(self.waiting) else self.waiting[after]
        return NumpyDecoding(self.memory, self.owners[after], self.past, self.parents[after], waiting,
                             self.sums[after], self.resolved[after])


class NumpyTranslator:
    """The translator as a `NextWord` of the beam search."""

    def __init__(self, size: Dimensions, tensors: Tensors, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._size = size
        self._facts = PositionVectors(tensors, vocabulary)
        self._encoder = [NumpyLayer(tensors, f"encoder.{number}", size.heads, False) for number in range(size.layers)]
        self._decoder = [NumpyLayer(tensors, f"decoder.{number}", size.heads, True) for number in range(size.depth)]
        first, *rest = (Linear.of(tensors, f"decoder.{number}.cross.pair") for number in range(size.depth))
        self._pairs = first.joined(*rest).after(tensors, "encoded")
        self._gain = tensors["encoded.weight"] * np.float32(math.sqrt(size.width))
        self._offset = tensors["encoded.bias"]
        self._kernels = {kernel.name: vocabulary.kernel(kernel.name) for kernel in vocabulary.kernels}
        self._chosen = lru_cache(MOST_CHOSEN)(self._choose)
        # of the last queries: vectors and means, and the kernels whose words have vectors
        self._last: dict[tuple[Problem, Device], tuple[Floats, Floats, frozenset[int]]] = {}
        self._position = centred(tensors["position.weight"])
        self._fixed = FixedWords(tensors, vocabulary) if size.fixed_words else None
        if self._fixed is not None:
            return
        self._words = WordVectors(tensors, vocabulary)
        self._quantity = tensors["settled.quantity"]
        self._matrices: dict[bytes, Matrix] = {}  # by the indices of quantities: their weights
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
        count, derived, width = len(queries), self._size.derived, self._size.width
        begin, none = np.arange(count), np.zeros((count, 0, 2 * width), np.float32)
        state = NumpyDecoding(
            self._read_source(queries, frozenset(allowed.words.tolist())), begin, (none,) * self._size.depth, begin,
            np.zeros((count, 0, width), np.float32), np.zeros((count, width), np.float32),
            np.zeros((count, derived), np.bool_))
        return self.advance(state, Allowed(begin, np.full(count, BEGIN), np.full((count, derived), np.nan, np.float32)),
                            allowed)

    def advance(self, state: NumpyDecoding, words: Allowed, allowed: Allowed) -> tuple[NumpyDecoding, Scores]:
        """Continue hypotheses with one more word each, and score the words allowed next."""
        offered = state.offered
        state = state.follow(words.after)
        if self._fixed is not None:
            fresh, sums = self._fixed.read[words.words], state.sums
        else:
            sums = self._resolve(words, state.resolved, state.sums) if offered is None or words.rows is None \
                else offered[words.rows]
            fresh = self._read_words(state, words, sums)
        fresh = fresh[:, None]
        state = NumpyDecoding(state.memory, state.owners, state.past, state.parents,
                              np.concatenate([state.waiting, fresh], axis=1) if state.waiting.shape[1] else fresh, sums,
                              ~np.isnan(words.resolved))
        if len(allowed.words) == len(words.words):  # one word after each: there is nothing to choose
            return state, np.zeros(len(allowed.words), np.float32)
        last, past = self._decode(state)
        scores, sums = self._scores(last, state, allowed)
        return replace(state, past=past, parents=np.arange(len(last)), waiting=state.waiting[:, :0],
                       offered=sums), scores

    def encoded(self, problem: Problem, device: Device, kernels: Iterable[str] | None = None) -> tuple[Floats, Floats]:
        """The vectors (V, W) of the target words for a query, and the mean (W,) of the encoder's states.

        Only words of these kernels have vectors (None: those of all). The queries that were encoded last are
        remembered, so after a search of these tasks this costs nothing.
        """
        known = self._kernels
        wanted = frozenset(known.values() if kernels is None else [known[name] for name in kernels if name in known])
        encoded = self._last.get((problem, device))  # read once: other threads replace the dictionary
        if encoded is None or not wanted <= encoded[2]:
            memory = self._read_source([(problem, device)], wanted)
            return memory.vectors[0], memory.mean[0]
        return encoded[:2]

    def _choose(self, kernels: frozenset[int]) -> Chosen:
        """The words of kernels, given by their own words, and the first one of all sentences; all words of all kernels.
        """
        if len(kernels) == len(self._kernels):
            return self._words.choose(np.arange(len(self.vocabulary.targets)))
        parts: list[Words] = [np.array([BEGIN, *kernels], np.int64)]
        for name, word in self._kernels.items():
            if word in kernels:
                parts += self.vocabulary.value_words(name)
        words = sorted({*np.concatenate(parts).tolist()})  # NumPy's `unique` would load numpy.ma: 8 ms
        return self._words.choose(np.array(words, np.int64))

    def _read_source(self, queries: Sequence[tuple[Problem, Device]], kernels: frozenset[int]) -> SourceMemory:
        """Encode queries; only the words of these kernels, which are given by their own words, get vectors."""
        x, counts, quantities = self._facts.read(queries)
        width, ends = x.shape[1], np.cumsum(counts)
        starts = ends - counts
        for first, last in _parts(ends.tolist()):
            begin = int(starts[first])
            own, rows = counts[first:last], x[begin:int(ends[last - 1])]
            start_of_row, count_of_row = np.repeat(starts[first:last] - begin, own), np.repeat(own, own)
            for layer in self._encoder:
                layer.encode(rows, start_of_row, count_of_row)
        states = unit(x)
        mean = np.stack([np.add.reduce(states[start:end]) / np.float32(end - start)
                         for start, end in zip(starts.tolist(), ends.tolist(), strict=True)])
        pairs = self._pairs(x)
        layers = tuple(Attended(pairs[:, 2 * width * number:2 * width * (number + 1)], starts, counts)
                       for number in range(len(self._decoder)))
        vectors = np.zeros((len(queries), 0, width), np.float32) if self._fixed is not None \
            else self._words.vectors(quantities, self._chosen(kernels))
        memory = SourceMemory(layers, vectors, mean * self._gain + self._offset)
        self._last = {query: (own, mean, kernels) for query, own, mean
                      in zip(queries, memory.vectors, memory.mean, strict=True)}
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
        added = np.array(sums, order="C")
        self._quantities(columns).add_to(added, numbers)
        return added

    def _quantities(self, columns: Numbers) -> Matrix:
        """The weights of these quantities. Threads share the dictionary; at most MOST_MATRICES are remembered."""
        key = columns.tobytes()
        matrix = self._matrices.get(key)
        if matrix is None:
            if len(self._matrices) >= MOST_MATRICES:
                self._matrices = {}
            matrix = self._matrices[key] = Matrix(self._quantity[columns].reshape(-1, self._quantity.shape[2]))
        return matrix

    def _read_words(self, state: NumpyDecoding, words: Allowed, sums: Floats) -> Floats:
        """The decoder's input for a word of each hypothesis, (H, W), given the sums of their quantities, (H, W)."""
        read = state.memory.vectors[state.owners, words.words]  # a copy
        self._read_resolved.add_to(read, gelu(sums + read))
        return centred(read)

    def _decode(self, state: NumpyDecoding) -> tuple[Floats, tuple[Floats, ...]]:
        """Read the waiting words: what the decoder makes (H, W) of the last one, and the new past."""
        done, length = state.past[0].shape[1], state.waiting.shape[1]
        x, past, last = state.waiting + self._position[done:done + length], [], len(self._decoder) - 1
        for number, layer in enumerate(self._decoder):
            x, pairs = layer.decode(x, state.past[number], state.parents, state.memory.layers[number], state.owners,
                                    1 if number == last else length)  # no layer reads the last one's other words
            past.append(pairs)
        return x[:, -1], tuple(past)

    def _scores(self, last: Floats, state: NumpyDecoding, allowed: Allowed) -> tuple[Scores, Floats]:
        """Score the allowed words, up to a constant for each hypothesis; also the sums with what each resolves."""
        if self._fixed is not None:
            fixed: Scores = dots(unit(last)[allowed.after], self._fixed.answers[allowed.words])
            fixed += self._fixed.bias[allowed.words]
            return fixed, state.sums[allowed.after]
        after = allowed.after
        sums = self._resolve(allowed, state.resolved[after], state.sums[after])
        vectors, asked = state.memory.vectors[state.owners[after], allowed.words], self._ask(last)[after]
        gain, offset = self._state
        query, told = np.split(asked, [last.shape[1]], axis=1)
        scores: Scores = dots((unit(last) * gain + offset)[after], vectors)
        scores += dots(told, self._answer(gelu(sums + vectors + query), gelu=True))
        return scores, sums
