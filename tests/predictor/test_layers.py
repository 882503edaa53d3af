"""Layers: a source has the same bits alone and among others, and words at once and one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.predictor.translator.numpy_layers import Attended, NumpyLayer
from seqtune.predictor.translator.rows import centred

Floats = NDArray[np.float32]
GENERATOR = np.random.default_rng(11)
SIZES = [(16, 2, 24), (48, 4, 40), (128, 4, 256), (30, 3, 7)]  # width, heads, hidden


def draw(*shape: int) -> Floats:
    return GENERATOR.normal(size=shape).astype(np.float32)


def layer(width: int, heads: int, hidden: int, cross: bool) -> NumpyLayer:
    tensors: dict[str, Floats] = {}
    for block in ("attention", "cross"):
        for part, columns in (("query", width), ("pair", 2 * width), ("out", width)):
            tensors |= {f"l.{block}.{part}.weight": draw(columns, width), f"l.{block}.{part}.bias": draw(columns)}
    for name, rows, columns in (("l.feed.0", hidden, width), ("l.feed.2", width, hidden)):
        tensors |= {f"{name}.weight": draw(rows, columns), f"{name}.bias": draw(rows)}
    for number in (1, 2, 3):
        tensors |= {f"l.norm{number}.weight": draw(width), f"l.norm{number}.bias": draw(width)}
    return NumpyLayer(tensors, "l", heads, cross)


@pytest.mark.parametrize(("width", "heads", "hidden"), SIZES)
def test_a_source_has_the_same_bits_among_others_and_alone(width: int, heads: int, hidden: int) -> None:
    encoder, x = layer(width, heads, hidden, False), centred(draw(19, width))
    lengths = [7, 1, 11]
    alone = [part.copy() for part in np.split(x, [7, 8])]
    encoder.encode(x, np.repeat([0, 7, 8], lengths), np.repeat(lengths, lengths))
    for part, length in zip(alone, lengths, strict=True):
        encoder.encode(part, np.zeros(length, int), np.full(length, length))
    np.testing.assert_array_equal(x, np.concatenate(alone))


@pytest.mark.parametrize(("width", "heads", "hidden"), SIZES)
@pytest.mark.parametrize("done", [0, 3])
def test_words_have_the_same_bits_read_at_once_or_one_after_the_other(width: int, heads: int, hidden: int,
                                                                     done: int) -> None:
    decoder, count, length = layer(width, heads, hidden, True), 5, 3
    waiting, before = centred(draw(count, length, width)), draw(3, done, 2 * width)
    parents, owners = np.array([2, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    pairs = draw(9, 6 * width)[:, 2 * width:4 * width]  # of the second of three layers
    source = Attended(pairs, np.array([0, 4]), np.array([4, 5]))
    every, past = decoder.decode(waiting, before, parents, source, owners, length)
    last, same = decoder.decode(waiting, before, parents, source, owners, 1)
    np.testing.assert_array_equal(last, every[:, -1:])
    np.testing.assert_array_equal(same, past)
    read, begin = before, parents
    for word in range(length):
        y, read = decoder.decode(waiting[:, word:word + 1], read, begin, source, owners, 1)
        begin = np.arange(count)
        np.testing.assert_array_equal(y, every[:, word:word + 1])
    np.testing.assert_array_equal(read, past)
