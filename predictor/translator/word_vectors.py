"""WordVectors: the vectors of target words for a problem, without PyTorch.

They are what `translator.TargetWords` computes. The buffers that describe the target words and
the numbers of resolved quantities are made here, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..sequence.numeric_codes import codes
from ..sequence.vocabulary import Vocabulary, Words
from .numpy_layers import Dimensions, Linear, Tensors, layer_shapes, with_biases
from .rows import Floats, Matrix, centred, gelu

FIT_SIZE = 4  # numbers for each pair of quantity and value
RESOLVED_SIZE = 6  # numbers for each derived quantity


def described_arrays(vocabulary: Vocabulary) -> dict[str, NDArray[Any]]:
    """The buffers that describe the target words, by their names in the state of a Translator."""
    values = vocabulary.target_values()
    numbers = [float(value) if isinstance(value, int | float) and value > 0 else 0.0 for value in values]
    return {"target.codes": codes(values), "target.values": np.array(numbers, np.float32),
            "target.groups": vocabulary.target_groups()}


def shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a Translator's state, by name; `target.groups` holds int64, the others float32."""
    width = size.width
    linear: dict[str, tuple[int, ...]] = {"settled.answer.0": (size.hidden, width),
                                          "settled.answer.2": (width, size.hidden)}
    for name in ("target.code",) if size.facts else ("source.code", "target.code"):
        linear[name] = (width, size.code)
    maps = {"source.maps": (size.facts, size.code, width)} if size.facts else {}
    for name in ("source.mix", "target.mix", "settled.read"):
        linear[name] = (width, width)
    changing: dict[str, tuple[int, ...]] = {}  # tensors of words that are not fixed
    if not size.fixed_words:
        linear["settled.ask"] = (width, width)
        changing = {"target.fit.weight": (width, size.quantities * FIT_SIZE),
                    "settled.quantity": (size.derived, RESOLVED_SIZE, width)}
    if size.judge:
        linear |= {"judge.quantity": (size.judge, size.derived * RESOLVED_SIZE),
                   "judge.problem": (2 * size.judge, width), "judge.inner": (size.judge, size.judge),
                   "judge.outer": (size.judge, size.judge),
                   "judge.slowness": (1, size.judge)}
    judge = {"judge.words.weight": (size.judge, width)} if size.judge else {}
    return judge | changing | maps | {
        "source.name.weight": (size.names, width), "source.word.weight": (size.words, width),
        "target.codes": (size.targets, size.code), "target.values": (size.targets,), "target.groups": (size.targets,),
        "target.word.weight": (size.targets, width), "target.group.weight": (size.groups, width),
        "position.weight": (size.longest, width),
    } | with_biases(linear) | layer_shapes(size)


def resolved_numbers(resolved: Floats) -> Floats:
    """The codes (rows, D * RESOLVED_SIZE) of derived quantities, given by their log2 (rows, D); zeros for NaN.

    A log2 has 16 bits (see `rounded_log2`), so its code is looked up.
    """
    halves = resolved.astype(np.float16).view(np.uint16)
    return _code_table().take(halves, axis=0).reshape(len(resolved), -1)


@cache
def _code_table() -> Floats:
    """The codes of all numbers of 16 bits, (number, RESOLVED_SIZE).

    See `seqtune.predictor.translator.quantity_codes.resolved_numbers`.
    """
    with np.errstate(invalid="ignore"):  # ARM raises the flag for signalling NaNs
        octave = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    missing = ~np.isfinite(octave)
    octave[missing] = 0
    numbers = np.empty((len(octave), RESOLVED_SIZE), np.float32)
    numbers[:, 0] = 1
    np.multiply(octave, np.float32(0.125), out=numbers[:, 1])
    numbers[:, 2] = 2 * np.minimum(np.maximum(octave, -1), 1)
    np.less(np.abs(octave), np.float32(1e-3), out=numbers[:, 3], casting="unsafe")
    # in float64, in which CPUs differ by so little that nearly all results are rounded to the same float32
    np.exp2(-np.maximum(octave, 0), out=numbers[:, 4], dtype=np.float64)
    np.exp2(np.minimum(octave, 5) - 4, out=numbers[:, 5], dtype=np.float64)
    numbers[missing] = 0
    return numbers


def fit_numbers(quantities: Floats, values: Floats) -> Floats:
    """Compare quantities (B, Q) with positive values (V,): (B, V, Q * FIT_SIZE).

    See `seqtune.predictor.translator.quantity_codes.fit_numbers`.
    """
    present = (quantities > 0)[:, None, :]
    q = np.where(quantities > 0, quantities, np.float32(1))[:, None, :]
    ratio = q / values[None, :, None]
    times = np.ceil(ratio)
    share = q / (times * values[None, :, None])
    numbers = np.empty((*ratio.shape, FIT_SIZE), np.float32)
    np.log2(ratio, out=numbers[..., 0], dtype=np.float64)  # as in `resolved_numbers`
    numbers[..., 0] /= 8
    numbers[..., 1] = share
    numbers[..., 2] = share == 1
    numbers[..., 3] = times == 1
    numbers *= present[..., None]
    return numbers.reshape(*ratio.shape[:2], -1)


class Chosen(NamedTuple):
    """Some target words, and what their vectors are made of."""

    words: Words  # (word,) those without a number; their vectors are the same for all problems
    numeric: Words  # (number,) the others
    values: Floats  # (value,) their different values
    inverse: Words  # (number,) the index of the value
    base: Floats  # (number, W)
    inputs: Floats  # (number, W)


class WordVectors:
    """The vectors of target words for the quantities of a problem."""

    def __init__(self, tensors: Tensors, vocabulary: Vocabulary) -> None:
        described = described_arrays(vocabulary)
        self._mix = Linear.of(tensors, "target.mix")
        self._base, self._inputs = _parts(tensors, described)
        self._constant = self._base + self._mix(gelu(self._inputs))  # right for words without a number
        self._values = described["target.values"]
        self._fit = Matrix(tensors["target.fit.weight"].T)

    def choose(self, words: Words) -> Chosen:
        """Prepare the computation of the vectors of some words, given by their distinct numbers."""
        numeric = words[self._values[words] > 0]
        values, inverse = np.unique(self._values[numeric], return_inverse=True)
        return Chosen(words[self._values[words] <= 0], numeric, values, inverse, self._base[numeric],
                       self._inputs[numeric])

    def vectors(self, quantities: Floats, chosen: Chosen) -> Floats:
        """The vectors (problem, word, W) for quantities (problem, quantity); those of words not chosen are undefined.
        """
        result = np.empty((len(quantities), *self._constant.shape), np.float32)
        result[:, chosen.words] = self._constant[chosen.words]
        if len(chosen.numeric):
            numbers = fit_numbers(quantities, chosen.values)  # (problem, value, number)
            fits = self._fit.multiply(numbers.reshape(-1, numbers.shape[2])).reshape(*numbers.shape[:2], -1)
            inputs = fits[:, chosen.inverse]
            inputs += chosen.inputs
            made = self._mix(gelu(inputs))
            made += chosen.base
            result[:, chosen.numeric] = made
        return result


class FixedWords:
    """Fixed target words as the decoder reads and scores them, for every problem and after every prefix.

    `read` (word, W) is what the decoder reads, centred. The score of a word after a state scaled to length 1 is
    state · `answers`[word] + `bias`[word], up to a constant for each state; `answers` (word, W), `bias` (word,).
    """

    def __init__(self, tensors: Tensors, vocabulary: Vocabulary) -> None:
        base, inputs = _parts(tensors, described_arrays(vocabulary))
        vectors = base + Linear.of(tensors, "target.mix")(gelu(inputs))
        hidden = gelu(vectors)
        self.read = centred(vectors + Linear.of(tensors, "settled.read")(hidden))
        inner, outer = Linear.of(tensors, "settled.answer.0"), Linear.of(tensors, "settled.answer.2")
        answers = vectors + outer(inner(hidden, gelu=True))
        bias = tensors["decoded.bias"]
        self.answers = answers * tensors["decoded.weight"]  # a state's norm and the scale of scores cancel out
        self.bias: Floats = Matrix(bias[:, None]).multiply(answers)[:, 0] / np.float32(math.sqrt(len(bias)))


def _parts(tensors: Tensors, described: Mapping[str, NDArray[Any]]) -> tuple[Floats, Floats]:
    """The parts of target words that need no problem: a sum of embeddings, and the input of their small network."""
    group = tensors["target.group.weight"][described["target.groups"]]
    return (tensors["target.word.weight"] + group,
            Linear.of(tensors, "target.code")(described["target.codes"]) + group)
