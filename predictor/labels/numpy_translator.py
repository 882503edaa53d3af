"""NumpyTranslator: a LabelTranslator for prediction, computed without PyTorch.

The function is the same, rearranged as `seqtune.predictor.translator.numpy_layers` describes.
Shapes: Q queries, H hypotheses, S source tokens, W width, E layers of the decoder.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Queries
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem

from ..sequence.beam import Allowed, Scores
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import BEGIN, Vocabulary, Words
from ..translator.dimensions import Dimensions
from ..translator.numpy_layers import Linear, NumpyLayer, Tensors, layer_shapes, with_biases
from ..translator.rows import Floats, Matrix, Numbers, attend, centred, dots, gelu, unit
from .inputs import CODE, MAGNITUDE_SIZE, NUMBERS, SIZES, TOKENS, Inputs


@dataclass(frozen=True, eq=False)
class NumpyDecoding:
    """The state of a beam search."""

    memory: Floats  # (Q S, 2 E W) keys and values of the sources for each layer
    owners: Numbers  # (hypothesis,) number of its query
    past: Floats  # (E, H, words, 2 W) keys and values of the words so far


class NumpyTranslator:
    """The translator as a source of next words (`NextWord`) of the beam search."""

    def __init__(self, size: Dimensions, tensors: Tensors, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._size = size
        sizes = [Matrix(tensors["reader.number"][begin:end].reshape(-1, size.width)) for begin, end in _spans()]
        self._numbers, self._token = sizes, tensors["reader.token"]
        self._work, self._word = Linear.of(tensors, "reader.work"), tensors["reader.word.weight"]
        self._mix = Linear.of(tensors, "reader.mix")
        self._encoder = [NumpyLayer(tensors, f"encoder.{number}", size.heads, False) for number in range(size.layers)]
        self._decoder = [NumpyLayer(tensors, f"decoder.{number}", size.heads, True) for number in range(size.depth)]
        first, *rest = (Linear.of(tensors, f"decoder.{number}.cross.pair") for number in range(size.depth))
        self._pairs = first.joined(*rest).after(tensors, "encoded")
        self._input_vectors = centred(target_vectors(tensors, "asked", vocabulary))
        self._position = centred(tensors["position.weight"])
        answered = target_vectors(tensors, "answered", vocabulary)
        self._target_vectors = answered * tensors["decoded.weight"]
        self._target_bias = target_biases(answered, tensors)

    def start(self, queries: Sequence[tuple[Problem, Device]] | Queries,
              allowed: Allowed) -> tuple[NumpyDecoding, Scores]:
        """Start one empty hypothesis per query, and score the words allowed first."""
        inputs, rows = Inputs.of(Queries.of(queries), self.vocabulary.words), np.arange(len(queries))
        no_past = np.zeros((len(self._decoder), len(rows), 0, 2 * self._size.width), np.float32)
        state = NumpyDecoding(self._read_source(*inputs.batch(rows)), rows, no_past)
        if len(allowed.words) == len(rows):  # one word each, for example of the only solver: there is nothing to choose
            return state, np.zeros(len(rows), np.float32)
        return state, self._scores(self._read_word(np.full(len(rows), BEGIN), state)[0], allowed)

    def advance(self, state: NumpyDecoding, chosen: Allowed, allowed: Allowed) -> tuple[NumpyDecoding, Scores]:
        """Extend hypotheses by one word each, and score the words allowed next."""
        before = NumpyDecoding(state.memory, state.owners[chosen.after], state.past[:, chosen.after])
        states, past = self._read_word(chosen.words, before)
        return NumpyDecoding(state.memory, before.owners, past), self._scores(states, allowed)

    def _read_source(self, numbers: Floats, magnitudes: Floats, words: NDArray[np.int64]) -> Floats:
        """The keys and values of the source, see `NumpyDecoding.memory`."""
        count, length, width = len(words), len(TOKENS), self._size.width
        x = np.tile(self._token, (count, 1, 1))
        for token, ((begin, end), weight) in enumerate(zip(_spans(), self._numbers, strict=True)):
            x[:, token] += weight.multiply(numbers[:, begin:end].reshape(count, -1))
        x[:, TOKENS.index("work")] += self._work(magnitudes)
        x[:, TOKENS.index("words")] += self._word[words].sum(axis=1)
        x = centred(x + self._mix(gelu(x))).reshape(-1, width)
        starts, counts = np.repeat(np.arange(count) * length, length), np.full(count * length, length)
        for layer in self._encoder:
            parts = layer.words(x)
            layer.out.add_to(x, attend(parts[:, :width], parts[:, width:], starts, counts, self._size.heads))
            layer.feed(x)
        return self._pairs(x)

    def _read_word(self, words: Words, before: NumpyDecoding) -> tuple[Floats, Floats]:
        """Read a word per hypothesis: the states (H, W), without the last norm's gain and offset, and the new past."""
        position, count, width, heads = before.past.shape[2], len(words), self._size.width, self._size.heads
        x = self._input_vectors[words] + self._position[position]
        past = np.empty((len(self._decoder), count, position + 1, 2 * width), np.float32)
        past[:, :, :position] = before.past
        own = np.arange(count) * (position + 1), np.full(count, position + 1)
        source = before.owners * len(TOKENS), np.full(count, len(TOKENS))
        for number, layer in enumerate(self._decoder):
            parts = layer.words(x)
            past[number, :, position] = parts[:, width:]
            layer.out.add_to(x, attend(parts[:, :width], past[number].reshape(-1, 2 * width), *own, heads))
            pairs = before.memory[:, 2 * width * number:2 * width * (number + 1)]
            layer.cross_out.add_to(x, attend(layer.cross_query(x), pairs, *source, heads))
            layer.feed(x)
        return unit(x), past

    def _scores(self, states: Floats, allowed: Allowed) -> Scores:
        """Score the allowed words. The model divides by the square root of the width; here that cancels out, as `unit`
        does not multiply by it."""
        scores: Scores = dots(states[allowed.after], self._target_vectors[allowed.words])
        scores += self._target_bias[allowed.words]
        return scores


def shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a LabelTranslator's state, by name."""
    width = size.width
    linear: dict[str, tuple[int, ...]] = {"reader.work": (width, MAGNITUDE_SIZE), "reader.mix": (width, width)}
    result: dict[str, tuple[int, ...]] = {
        "reader.number": (len(NUMBERS), CODE, width), "reader.token": (len(TOKENS), width),
        "reader.word.weight": (size.words, width), "position.weight": (size.longest, width)}
    for name in ("asked", "answered"):
        result |= {f"{name}.word.weight": (size.targets, width), f"{name}.group.weight": (size.groups, width)}
        linear |= {f"{name}.code": (width, size.code), f"{name}.mix": (width, width)}
    return result | with_biases(linear) | layer_shapes(size)


def _spans() -> list[tuple[int, int]]:
    """The range [begin, end) of numbers that belong to each of the tokens in SIZES."""
    ends = np.cumsum([0, *(len(sizes) for sizes in SIZES.values())]).tolist()
    return list(itertools.pairwise(ends))


def target_vectors(tensors: Tensors, name: str, vocabulary: Vocabulary) -> Floats:
    """The vectors of all target words, (word, W), see `TargetVectors`."""
    group = tensors[f"{name}.group.weight"][vocabulary.target_groups()]
    code = Linear.of(tensors, f"{name}.code")(codes(vocabulary.target_values()))
    vectors: Floats = tensors[f"{name}.word.weight"] + group + Linear.of(tensors, f"{name}.mix")(gelu(code + group))
    return vectors


def target_biases(answered: Floats, tensors: Tensors) -> Floats:
    """The parts of the target words' scores that the last norm's offset adds, (word,); `answered`: their vectors."""
    bias = tensors["decoded.bias"]
    biases: Floats = Matrix(bias[:, None]).multiply(answered)[:, 0] / np.float32(math.sqrt(len(bias)))
    return biases
