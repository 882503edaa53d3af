"""ArrayTranslator: what a LabelTranslator says, computed with NumPy alone, for prediction.

One answer is a few hundred products of a handful of rows, of which PyTorch spends most of the time between them. Here
the same function is rearranged, exactly: what is written to the residual stream is centred beforehand, since every
reader of it is a layer norm, which then only scales; gains, offsets and scales go into the products that follow; query,
keys and values are one product.
Shapes: Q questions, H hypotheses, S source tokens, W width, E layers, A heads.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.data.queries import Questions
from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ..networks.dimensions import Dimensions
from ..sequence.beam import Allowed, Scores
from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import BEGIN, Vocabulary, Words
from .inputs import CODE, MAGNITUDE_SIZE, NUMBERS, SIZES, TOKENS, Floats, Inputs

EPSILON = 1e-5  # of PyTorch's layer norm

Tensors = Mapping[str, Floats]  # a state of the LabelTranslator


def gelu(x: Floats) -> Floats:
    """x times the normal distribution up to x, which is told to 1e-7 (Abramowitz and Stegun, 7.1.26)."""
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
    found: Floats = np.maximum(x, 0)
    found -= tail
    return found


def unit(x: Floats) -> Floats:
    """Centred rows as layer norm scales them, but for the root of their length: each by its length alone."""
    length = np.einsum("...i,...i->...", x, x)
    length += EPSILON * x.shape[-1]
    found: Floats = x / np.sqrt(length)[..., None]
    return found


def attend(query: Floats, keys: Floats, values: Floats) -> Floats:
    """Query (H, T, A, W/A), already scaled, over keys and values (H or 1, S, A, W/A) -> (H, T, W)."""
    scores: Floats = query.transpose(0, 2, 1, 3) @ keys.transpose(0, 2, 3, 1)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    found: Floats = (scores @ values.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3).reshape(*query.shape[:2], -1)
    return found


@dataclass(frozen=True, eq=False)
class Linear:
    """x @ weight + bias."""

    weight: Floats  # (in, out)
    bias: Floats

    @classmethod
    def of(cls, tensors: Tensors, name: str) -> Linear:
        """As PyTorch keeps it."""
        return cls(tensors[f"{name}.weight"].T, tensors[f"{name}.bias"])

    def __call__(self, x: Floats) -> Floats:
        found: Floats = x @ self.weight
        found += self.bias
        return found

    def after(self, tensors: Tensors, norm: str) -> Linear:
        """The same of what `unit` gives in place of that layer norm."""
        gain = tensors[f"{norm}.weight"] * math.sqrt(len(self.weight))
        return Linear(gain[:, None] * self.weight, self.bias + tensors[f"{norm}.bias"] @ self.weight)

    def centred(self) -> Linear:
        """Into the residual stream."""
        return Linear(centred(self.weight), centred(self.bias))

    def times(self, factor: float) -> Linear:
        """A multiple of it."""
        return Linear(self.weight * factor, self.bias * factor)

    def beside(self, *others: Linear) -> Linear:
        """Several as one, with their results side by side."""
        every = (self, *others)
        return Linear(np.ascontiguousarray(np.concatenate([one.weight for one in every], axis=1)),
                      np.concatenate([one.bias for one in every]))


def centred(x: Floats) -> Floats:
    """Rows less their means."""
    return np.ascontiguousarray(x - x.mean(axis=-1, keepdims=True))


class _Layer:
    """The products of a layer of the encoder, or of the decoder, which attends to the source (`cross`), too."""

    def __init__(self, tensors: Tensors, name: str, heads: int, cross: bool) -> None:
        query, pair, out = (Linear.of(tensors, f"{name}.attention.{part}") for part in ("query", "pair", "out"))
        scale = math.sqrt(heads / query.weight.shape[1])
        self.words = query.times(scale).beside(pair).after(tensors, f"{name}.norm1")
        self.out = out.centred()
        if cross:
            self.ask = Linear.of(tensors, f"{name}.cross.query").times(scale).after(tensors, f"{name}.norm2")
            self.told = Linear.of(tensors, f"{name}.cross.out").centred()
        self.inner = Linear.of(tensors, f"{name}.feed.0").after(tensors, f"{name}.norm3" if cross else f"{name}.norm2")
        self.outer = Linear.of(tensors, f"{name}.feed.2").centred()

    def feed(self, x: Floats) -> None:
        """The feed-forward block, added in place."""
        x += self.outer(gelu(self.inner(unit(x))))


@dataclass(frozen=True, eq=False)
class Reading:
    """Where a translation stands."""

    memory: Floats  # (Q, S, E, 2, A, W/A) keys and values of the source
    owners: NDArray[np.int64]  # hypothesis -> question
    past: Floats  # (E, H, words, 2, A, W/A) keys and values of the words so far


class ArrayTranslator:
    """The translator as a `NextWord` of the beam search."""

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
        self._pairs = first.beside(*rest).after(tensors, "encoded")
        self._asked = centred(_vectors(tensors, "asked", vocabulary))
        self._position = centred(tensors["position.weight"])
        answers = _vectors(tensors, "answered", vocabulary)
        self._answers = answers * tensors["decoded.weight"]
        self._usual: Floats = answers @ tensors["decoded.bias"] / np.float32(math.sqrt(size.width))

    def start(self, questions: Sequence[tuple[Problem, Device]] | Questions,
              allowed: Allowed) -> tuple[Reading, Scores]:
        """One empty hypothesis per question."""
        inputs, everyone = Inputs.of(Questions.of(questions), self.vocabulary.words), np.arange(len(questions))
        nothing = np.zeros((len(self._decoder), len(everyone), 0, 2, *self._heads), np.float32)
        state = Reading(self._read(*inputs.batch(everyone)), everyone, nothing)
        if len(allowed.words) == len(everyone):  # one word each, as where one solver is asked for: nothing to tell
            return state, np.zeros(len(everyone), np.float32)
        return state, self._scores(self._said(np.full(len(everyone), BEGIN), state)[0], allowed)

    def advance(self, state: Reading, said: Allowed, allowed: Allowed) -> tuple[Reading, Scores]:
        """New hypotheses: each an old one with one more word."""
        chosen = Reading(state.memory, state.owners[said.after], state.past[:, said.after])
        states, past = self._said(said.words, chosen)
        return Reading(state.memory, chosen.owners, past), self._scores(states, allowed)

    def _read(self, numbers: Floats, magnitudes: Floats, words: NDArray[np.int64]) -> Floats:
        """Keys and values of the source, as in Reading."""
        count, length = len(words), len(TOKENS)
        x = np.tile(self._token, (count, 1, 1))
        for place, ((begin, end), weight) in enumerate(zip(_spans(), self._numbers, strict=True)):
            x[:, place] += numbers[:, begin:end].reshape(count, -1) @ weight
        x[:, TOKENS.index("work")] += self._work(magnitudes)
        x[:, TOKENS.index("words")] += self._word[words].sum(axis=1)
        x = centred(x + self._mix(gelu(x)))
        for layer in self._encoder:
            query, keys, values = np.moveaxis(layer.words(unit(x)).reshape(count, length, 3, *self._heads), 2, 0)
            x += layer.out(attend(query, keys, values))
            layer.feed(x)
        return self._pairs(unit(x)).reshape(count, length, len(self._decoder), 2, *self._heads)

    def _said(self, words: Words, before: Reading) -> tuple[Floats, Floats]:
        """States (H, W) after one more word each, but for the last norm's gain and offset, and the new past."""
        done = before.past.shape[2]
        x = self._asked[words] + self._position[done]
        past = np.concatenate([before.past, np.empty_like(before.past, shape=(
            len(self._decoder), len(words), 1, 2, *self._heads))], axis=2)
        memory = before.memory
        if len(memory) > 1 and not np.array_equal(before.owners, np.arange(len(memory))):
            memory = memory[before.owners]
        for number, layer in enumerate(self._decoder):
            parts = layer.words(unit(x)).reshape(len(words), 1, 3, *self._heads)
            past[number, :, done:] = parts[:, :, 1:]
            x += layer.out(attend(parts[:, :, 0], past[number, :, :, 0], past[number, :, :, 1])[:, 0])
            asked = layer.ask(unit(x)).reshape(len(words), 1, *self._heads)
            x += layer.told(attend(asked, memory[:, :, number, 0], memory[:, :, number, 1])[:, 0])
            layer.feed(x)
        return unit(x), past

    def _scores(self, states: Floats, allowed: Allowed) -> Scores:
        """The root of the width cancels out: states lack it, and scores would be divided by it."""
        found: Scores = np.einsum("ij,ij->i", states[allowed.after], self._answers[allowed.words])
        found += self._usual[allowed.words]
        return found


def shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """Of the tensors of a LabelTranslator's state."""
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
    found: dict[str, tuple[int, ...]] = {
        "reader.number": (len(NUMBERS), CODE, width), "reader.token": (len(TOKENS), width),
        "reader.word.weight": (size.words, width), "position.weight": (size.longest, width)}
    for name in ("asked", "answered"):
        found |= {f"{name}.word.weight": (size.targets, width), f"{name}.group.weight": (size.groups, width)}
        linear |= {f"{name}.code": (width, size.code), f"{name}.mix": (width, width)}
    for name, shape in linear.items():
        found |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return found | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def _spans() -> list[tuple[int, int]]:
    """Which of the numbers belong to each of the first tokens."""
    ends = np.cumsum([0, *(len(sizes) for sizes in SIZES.values())]).tolist()
    return list(itertools.pairwise(ends))


def _vectors(tensors: Tensors, name: str, vocabulary: Vocabulary) -> Floats:
    """Of all target words (word, W), as `TargetVectors` makes them."""
    group = tensors[f"{name}.group.weight"][vocabulary.target_groups()]
    code = Linear.of(tensors, f"{name}.code")(codes(vocabulary.target_values()))
    found: Floats = tensors[f"{name}.word.weight"] + group + Linear.of(tensors, f"{name}.mix")(gelu(code + group))
    return found
