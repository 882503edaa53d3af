"""ArrayTranslator: a LabelTranslator for prediction, computed with NumPy alone.

A prediction is a few hundred products of a few rows each; PyTorch would spend most of the time between them. The same
function is rearranged here, exactly. Everything that is added to the residual stream is centred beforehand: only layer
norms read the stream, so they only have to scale it. Gains, offsets and scales are merged into the products that
follow. Query, keys and values are one product.
Shapes: Q queries, H hypotheses, S source tokens, W width, E layers, A heads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Queries
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ..networks.dimensions import Dimensions
from ..sequence.beam import Allowed, Scores
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import BEGIN, Vocabulary, Words
from .inputs import CODE, MAGNITUDE_SIZE, NUMBERS, SIZES, TOKENS, Floats, Inputs

EPSILON = 1e-5  # of PyTorch's layer norm

Tensors = Mapping[str, Floats]  # the state of a LabelTranslator by name


def gelu(x: Floats) -> Floats:
    """x times the normal distribution function of x, which is approximated to 1e-7 (Abramowitz and Stegun, 7.1.26)."""
    size = np.abs(x)
    t = size * np.float32(0.3275911 * math.sqrt(0.5))
    t += 1
    np.reciprocal(t, out=t)
    tail = t * np.float32(1.061405429 / 2)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        tail += np.float32(coefficient / 2)
        tail *= t
    tail *= np.exp(x * x * np.float32(-0.5))
    tail *= size
    result: Floats = np.maximum(x, 0)
    result -= tail
    return result


def unit(x: Floats) -> Floats:
    """Scale centred rows to length 1. Layer norm would scale them to the square root of their number of elements."""
    length = np.einsum("...i,...i->...", x, x)
    length += EPSILON * x.shape[-1]
    scaled: Floats = x / np.sqrt(length)[..., None]
    return scaled


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Attend from a scaled query (H, T, A, W/A) to keys and values (H or 1, S, A, W/A): (H, T, W)."""
    scores: Floats = query.transpose(0, 2, 1, 3) @ keys.transpose(0, 2, 3, 1)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    attended: Floats = (scores @ values.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1)
    return attended


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map: x @ weight + bias."""

    weight: Floats  # (in, out)
    bias: Floats  # (out,)

    @classmethod
    def of(cls, tensors: Tensors, name: str) -> Linear:
        """Make the map from a PyTorch layer's tensors."""
        return cls(tensors[f"{name}.weight"].T, tensors[f"{name}.bias"])

    def __call__(self, x: Floats) -> Floats:
        result: Floats = x @ self.weight
        result += self.bias
        return result

    def after(self, tensors: Tensors, norm: str) -> Linear:
        """The map of `unit(x)` that equals this map of the layer norm of x."""
        gain = tensors[f"{norm}.weight"] * math.sqrt(len(self.weight))
        return Linear(gain[:, None] * self.weight, self.bias + tensors[f"{norm}.bias"] @ self.weight)

    def centred(self) -> Linear:
        """The map with a centred result, for adding to the residual stream."""
        return Linear(centred(self.weight), centred(self.bias))

    def times(self, factor: float) -> Linear:
        """The map multiplied by a factor."""
        return Linear(self.weight * factor, self.bias * factor)

    def joined(self, *others: Linear) -> Linear:
        """Join several maps of the same x into one, with their results side by side."""
        maps = (self, *others)
        return Linear(np.ascontiguousarray(np.concatenate([linear.weight for linear in maps], axis=1)),
                      np.concatenate([linear.bias for linear in maps]))


def centred(x: Floats) -> Floats:
    """Subtract the mean of each row."""
    return np.ascontiguousarray(x - x.mean(axis=-1, keepdims=True))


class _Layer:
    """The products of one layer of the encoder or, with `cross` attention to the source, of the decoder."""

    def __init__(self, tensors: Tensors, name: str, heads: int, cross: bool) -> None:
        query, pair, out = (Linear.of(tensors, f"{name}.attention.{part}") for part in ("query", "pair", "out"))
        scale = math.sqrt(heads / query.weight.shape[1])
        self.words = query.times(scale).joined(pair).after(tensors, f"{name}.norm1")
        self.out = out.centred()
        if cross:
            self.cross_query = Linear.of(tensors, f"{name}.cross.query").times(scale).after(tensors, f"{name}.norm2")
            self.cross_out = Linear.of(tensors, f"{name}.cross.out").centred()
        self.inner = Linear.of(tensors, f"{name}.feed.0").after(tensors, f"{name}.norm3" if cross else f"{name}.norm2")
        self.outer = Linear.of(tensors, f"{name}.feed.2").centred()

    def feed(self, x: Floats) -> None:
        """Add the feed-forward block to x in place."""
        x += self.outer(gelu(self.inner(unit(x))))


@dataclass(frozen=True, eq=False)
class ArrayDecoding:
    """The state of a beam search."""

    memory: Floats  # (Q, S, E, 2, A, W/A) keys and values of the source
    owners: NDArray[np.int64]  # (hypothesis,) number of its query
    past: Floats  # (E, H, words, 2, A, W/A) keys and values of the words so far


class ArrayTranslator:
    """The translator as a source of next words (`NextWord`) of the beam search."""

    def __init__(self, size: Dimensions, tensors: Tensors, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._heads = (size.heads, size.width // size.heads)
        sizes = [tensors["reader.number"][begin:end].reshape(-1, size.width) for begin, end in _spans()]
        self._numbers, self._token = sizes, tensors["reader.token"]
        self._work, self._word = Linear.of(tensors, "reader.work"), tensors["reader.word.weight"]
        self._mix = Linear.of(tensors, "reader.mix")
        self._encoder = [_Layer(tensors, f"encoder.{number}", size.heads, False) for number in range(size.layers)]
        self._decoder = [_Layer(tensors, f"decoder.{number}", size.heads, True) for number in range(size.layers)]
        first, *rest = (Linear.of(tensors, f"decoder.{number}.cross.pair") for number in range(size.layers))
        self._pairs = first.joined(*rest).after(tensors, "encoded")
        self._input_vectors = centred(_vectors(tensors, "asked", vocabulary))
        self._position = centred(tensors["position.weight"])
        target_vectors = _vectors(tensors, "answered", vocabulary)
        self._target_vectors = target_vectors * tensors["decoded.weight"]
        self._target_bias: Floats = target_vectors @ tensors["decoded.bias"] / np.float32(math.sqrt(size.width))

    def start(self, queries: Sequence[tuple[Problem, Device]] | Queries,
              allowed: Allowed) -> tuple[ArrayDecoding, Scores]:
        """Start one empty hypothesis per query, and score the words allowed first."""
        inputs, rows = Inputs.of(Queries.of(queries), self.vocabulary.words), np.arange(len(queries))
        no_past = np.zeros((len(self._decoder), len(rows), 0, 2, *self._heads), np.float32)
        state = ArrayDecoding(self._read_source(*inputs.batch(rows)), rows, no_past)
        if len(allowed.words) == len(rows):  # one word each, for example of the only solver: there is nothing to choose
            return state, np.zeros(len(rows), np.float32)
        return state, self._scores(self._read_word(np.full(len(rows), BEGIN), state)[0], allowed)

    def advance(self, state: ArrayDecoding, said: Allowed, allowed: Allowed) -> tuple[ArrayDecoding, Scores]:
        """Extend hypotheses by one word each, and score the words allowed next."""
        chosen = ArrayDecoding(state.memory, state.owners[said.after], state.past[:, said.after])
        states, past = self._read_word(said.words, chosen)
        return ArrayDecoding(state.memory, chosen.owners, past), self._scores(states, allowed)

    def _read_source(self, numbers: Floats, magnitudes: Floats, words: NDArray[np.int64]) -> Floats:
        """The keys and values of the source, see `ArrayDecoding.memory`."""
        count, length = len(words), len(TOKENS)
        x = np.tile(self._token, (count, 1, 1))
        for token, ((begin, end), weight) in enumerate(zip(_spans(), self._numbers, strict=True)):
            x[:, token] += numbers[:, begin:end].reshape(count, -1) @ weight
        x[:, TOKENS.index("work")] += self._work(magnitudes)
        x[:, TOKENS.index("words")] += self._word[words].sum(axis=1)
        x = centred(x + self._mix(gelu(x)))
        for layer in self._encoder:
            query, keys, values = np.moveaxis(layer.words(unit(x)).reshape(count, length, 3, *self._heads), 2, 0)
            x += layer.out(attend(query, keys, values))
            layer.feed(x)
        return self._pairs(unit(x)).reshape(count, length, len(self._decoder), 2, *self._heads)

    def _read_word(self, words: Words, before: ArrayDecoding) -> tuple[Floats, Floats]:
        """Read a word per hypothesis: the states (H, W), without the last norm's gain and offset, and the new past."""
        position = before.past.shape[2]
        x = self._input_vectors[words] + self._position[position]
        past = np.concatenate([before.past, np.empty_like(before.past, shape=(
            len(self._decoder), len(words), 1, 2, *self._heads))], axis=2)
        memory = before.memory
        if len(memory) > 1 and not np.array_equal(before.owners, np.arange(len(memory))):
            memory = memory[before.owners]
        for number, layer in enumerate(self._decoder):
            parts = layer.words(unit(x)).reshape(len(words), 1, 3, *self._heads)
            past[number, :, position:] = parts[:, :, 1:]
            x += layer.out(attend(parts[:, :, 0], past[number, :, :, 0], past[number, :, :, 1])[:, 0])
            query = layer.cross_query(unit(x)).reshape(len(words), 1, *self._heads)
            x += layer.cross_out(attend(query, memory[:, :, number, 0], memory[:, :, number, 1])[:, 0])
            layer.feed(x)
        return unit(x), past

    def _scores(self, states: Floats, allowed: Allowed) -> Scores:
        """Score the allowed words. The model divides by the square root of the width; here that cancels out, as `unit`
        does not multiply by it."""
        scores: Scores = np.einsum("ij,ij->i", states[allowed.after], self._target_vectors[allowed.words])
        scores += self._target_bias[allowed.words]
        return scores


def shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a LabelTranslator's state, by name."""
    width = size.width
    linear = {"reader.work": (width, MAGNITUDE_SIZE), "reader.mix": (width, width)}
    norms = ["encoded", "decoded"]
    for name, count in (("encoder", 2), ("decoder", 3)):
        for layer in (f"{name}.{number}" for number in range(size.layers)):
            norms += [f"{layer}.norm{number + 1}" for number in range(count)]
            for block in ("attention", "cross")[:count - 1]:
                linear |= {f"{layer}.{block}.query": (width, width), f"{layer}.{block}.pair": (2 * width, width),
                           f"{layer}.{block}.out": (width, width)}
            linear |= {f"{layer}.feed.0": (size.hidden, width), f"{layer}.feed.2": (width, size.hidden)}
    result: dict[str, tuple[int, ...]] = {
        "reader.number": (len(NUMBERS), CODE, width), "reader.token": (len(TOKENS), width),
        "reader.word.weight": (size.words, width), "position.weight": (size.longest, width)}
    for name in ("asked", "answered"):
        result |= {f"{name}.word.weight": (size.targets, width), f"{name}.group.weight": (size.groups, width)}
        linear |= {f"{name}.code": (width, size.code), f"{name}.mix": (width, width)}
    for name, shape in linear.items():
        result |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return result | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def _spans() -> list[tuple[int, int]]:
    """The range [begin, end) of numbers that belong to each of the tokens in SIZES."""
    ends = np.cumsum([0, *(len(sizes) for sizes in SIZES.values())]).tolist()
    return list(itertools.pairwise(ends))


def _vectors(tensors: Tensors, name: str, vocabulary: Vocabulary) -> Floats:
    """The vectors of all target words, (word, W), see `TargetVectors`."""
    group = tensors[f"{name}.group.weight"][vocabulary.target_groups()]
    code = Linear.of(tensors, f"{name}.code")(codes(vocabulary.target_values()))
    vectors: Floats = tensors[f"{name}.word.weight"] + group + Linear.of(tensors, f"{name}.mix")(gelu(code + group))
    return vectors
