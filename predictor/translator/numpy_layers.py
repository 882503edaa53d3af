"""The sizes of a translator, and its layers for predictions without PyTorch: NumPy holds arrays, `rows` computes.

A prediction is a few hundred products of a few rows each; PyTorch would spend most of the time between them. The same
functions as in `seqtune.predictor.translator.transformer` are rearranged here, exactly. Everything that is added to the
residual stream is centred beforehand: only layer norms read the stream, so they only have to scale it. Gains, offsets
and scales are merged into the products that follow. Query, keys and values are one product.
Each row of a result depends on nothing but the same row of what goes in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..sequence.numeric_codes import CODE_SIZE
from ..sequence.vocabulary import Vocabulary
from .rows import Floats, Matrix, Numbers, attend, centred

Tensors = Mapping[str, Floats]  # the state of a network by name


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The sizes of a translator. The first eight follow from the vocabulary and its numeric codes (see `of`)."""

    names: int
    words: int
    targets: int
    groups: int
    derived: int
    longest: int  # target words of the longest sentence
    code: int
    quantities: int  # compared with the values of target words; 0: a word means the same for every problem
    width: int = 128
    layers: int = 3  # in the encoder
    decoder_layers: int = 0  # 0: as many as in the encoder
    heads: int = 4
    hidden: int = 256  # width of the feed-forward blocks
    dropout: float = 0.1
    word_dropout: float = 0.05  # source words read as <unknown> in training, so that <unknown> gets a meaning
    number_dropout: float = 0.01  # the same for numbers
    judge: int = 0  # hidden width of the judge of whole configurations; 0: none
    facts: int = 0  # of the one operation whose sentence says which facts share a position; 0: each has its own

    @property
    def fixed_words(self) -> bool:
        """Whether a target word has the same vector for every problem and after every prefix."""
        return not self.quantities and not self.derived

    @property
    def depth(self) -> int:
        """The number of the decoder's layers."""
        return self.decoder_layers or self.layers

    @classmethod
    def of(cls, vocabulary: Vocabulary, **options: Any) -> Dimensions:
        """The dimensions for a vocabulary; `options` are values of the fields from `quantities` on."""
        return cls(len(vocabulary.names), len(vocabulary.words), len(vocabulary.targets),
                   len(vocabulary.parameter_names), len(vocabulary.derived), vocabulary.longest, CODE_SIZE,
                   **{"quantities": len(vocabulary.quantities), **options})


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear map of rows: x @ weight + bias; or, with `of_unit`, of centred rows that are scaled to length 1."""

    weight: Floats  # (in, out)
    bias: Floats  # (out,)
    of_unit: bool = False

    @classmethod
    def of(cls, tensors: Tensors, name: str) -> Linear:
        """Make the map from a PyTorch layer's tensors."""
        return cls(np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"])

    @cached_property
    def matrix(self) -> Matrix:
        """The matrix that multiplies."""
        return Matrix(self.weight, self.bias)

    def __call__(self, x: Floats, gelu: bool = False) -> Floats:
        """The result, or gelu of it, for the last axis of x."""
        rows = x if x.ndim == 2 else x.reshape(-1, len(self.weight))
        result = self.matrix.multiply(rows, self.of_unit, gelu)
        return result if x.ndim == 2 else result.reshape(*x.shape[:-1], len(self.bias))

    def add_to(self, sums: Floats, x: Floats) -> None:
        """Add the result for rows x (row, in) to `sums` (row, out)."""
        assert not self.of_unit
        self.matrix.add_to(sums, x)

    def after(self, tensors: Tensors, norm: str) -> Linear:
        """The map of rows of length 1 that equals this map of the layer norm of the rows."""
        gain = tensors[f"{norm}.weight"] * np.float32(math.sqrt(len(self.weight)))
        return Linear(gain[:, None] * self.weight, self(tensors[f"{norm}.bias"][None])[0], True)

    def centred(self) -> Linear:
        """The map with a centred result, for adding to the residual stream."""
        return replace(self, weight=centred(self.weight), bias=centred(self.bias))

    def times(self, factor: float) -> Linear:
        """The map multiplied by a factor."""
        return replace(self, weight=self.weight * np.float32(factor), bias=self.bias * np.float32(factor))

    def joined(self, *others: Linear) -> Linear:
        """Join several maps of the same x into one, with their results side by side."""
        maps = (self, *others)
        assert len({linear.of_unit for linear in maps}) == 1
        return replace(self, weight=np.ascontiguousarray(np.concatenate([linear.weight for linear in maps], axis=1)),
                       bias=np.concatenate([linear.bias for linear in maps]))


class Attended(NamedTuple):
    """The memory that the rows of several queries may attend to."""

    pairs: Floats  # (P, 2 W) keys and values of all queries, one after the other
    starts: Numbers  # (Q,) first position of a query
    counts: Numbers  # (Q,) positions


class NumpyLayer:
    """The products of one layer of the encoder or, with `cross` attention to the source, of the decoder.

    `words`, `cross_query` and `inner` scale the rows of the residual stream that they read.
    """

    def __init__(self, tensors: Tensors, name: str, heads: int, cross: bool) -> None:
        query, pair, out = (Linear.of(tensors, f"{name}.attention.{part}") for part in ("query", "pair", "out"))
        self._heads, scale = heads, math.sqrt(heads / query.weight.shape[1])
        self.words = query.times(scale).joined(pair).after(tensors, f"{name}.norm1")
        self.out = out.centred()
        if cross:
            self.cross_query = Linear.of(tensors, f"{name}.cross.query").times(scale).after(tensors, f"{name}.norm2")
            self.cross_out = Linear.of(tensors, f"{name}.cross.out").centred()
        self.inner = Linear.of(tensors, f"{name}.feed.0").after(tensors, f"{name}.norm3" if cross else f"{name}.norm2")
        self.outer = Linear.of(tensors, f"{name}.feed.2").centred()

    def encode(self, x: Floats, starts: Numbers, counts: Numbers) -> None:
        """Apply a layer of the encoder to rows x (R, W) in place.

        Row i attends to `counts[i]` rows from `starts[i]` on.
        """
        width, words = x.shape[1], self.words(x)
        self.out.add_to(x, attend(words[:, :width], words[:, width:], starts, counts, self._heads))
        self.feed(x)

    def decode(self, x: Floats, before: Floats, parents: Numbers, source: Attended, owners: Numbers,
               finished: int) -> tuple[Floats, Floats]:
        """Apply a layer of the decoder to words x (H, T, W) after D earlier ones.

        `before` (., D, 2 W) has the keys and values of the earlier words, and `parents` (H,) the index of each
        hypothesis in it; `owners` (H,) are queries of the source. The result is the last words (H, finished, W), and
        the keys and values of all words (H, D + T, 2 W).
        """
        count, length, width = x.shape
        words, position = self.words(x), np.arange(length - finished, length) + before.shape[1]
        past = np.concatenate([before[parents], words[:, :, width:]], axis=1)
        y = x[:, length - finished:].reshape(-1, width).copy()
        query = words[:, length - finished:, :width].reshape(-1, width)
        starts = np.arange(count).repeat(finished) * past.shape[1]
        counts = np.tile(position + 1, count)  # a word sees itself and earlier ones
        self.out.add_to(y, attend(query, past.reshape(-1, 2 * width), starts, counts, self._heads))
        owners = owners.repeat(finished)
        self.cross_out.add_to(y, attend(self.cross_query(y), source.pairs, source.starts[owners],
                                        source.counts[owners], self._heads))
        self.feed(y)
        return y.reshape(count, finished, width), past

    def feed(self, x: Floats) -> None:
        """Add the feed-forward block to x in place."""
        self.outer.add_to(x, self.inner(x, gelu=True))


def layer_shapes(size: Dimensions) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors of an encoder and a decoder, with the norms after them, by name."""
    width = size.width
    linear: dict[str, tuple[int, ...]] = {}
    norms = ["encoded", "decoded"]
    for name, count, layers in (("encoder", 2, size.layers), ("decoder", 3, size.depth)):
        for layer in (f"{name}.{number}" for number in range(layers)):
            norms += [f"{layer}.norm{number + 1}" for number in range(count)]
            for block in ("attention", "cross")[:count - 1]:
                linear |= {f"{layer}.{block}.query": (width, width), f"{layer}.{block}.pair": (2 * width, width),
                           f"{layer}.{block}.out": (width, width)}
            linear |= {f"{layer}.feed.0": (size.hidden, width), f"{layer}.feed.2": (width, size.hidden)}
    return with_biases(linear) | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def with_biases(linear: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights and biases of linear layers, given the shapes of their weights."""
    return {f"{name}.{part}": shape[:axes] for name, shape in linear.items()
            for part, axes in (("weight", 2), ("bias", 1))}
