"""Whole layers, words that are read and words that are scored have the bits that their steps have one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from seqtune.predictor.translator.numpy_layers import Linear, NumpyLayer
from seqtune.predictor.translator.rows import (
    Attended,
    MatrixTable,
    QueryWords,
    attend,
    centred,
    dots,
    gelu,
    read,
    score,
    unit,
)

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
def test_a_layer_of_the_encoder_is_its_steps(width: int, heads: int, hidden: int) -> None:
    encoder, x = layer(width, heads, hidden, False), centred(draw(19, width))
    starts, counts = np.repeat([0, 7, 8], [7, 1, 11]), np.repeat([7, 1, 11], [7, 1, 11])
    wanted = x.copy()
    words = encoder.words(wanted)
    encoder.out.add_to(wanted, attend(words[:, :width], words[:, width:], starts, counts, heads))
    encoder.feed(wanted)
    encoder.encode(x, starts, counts)
    np.testing.assert_array_equal(x, wanted)


@pytest.mark.parametrize(("width", "heads", "hidden"), SIZES)
@pytest.mark.parametrize(("length", "done"), [(1, 0), (1, 3), (3, 0), (2, 4)])
def test_a_layer_of_the_decoder_is_its_steps(width: int, heads: int, hidden: int, length: int, done: int) -> None:
    decoder, count = layer(width, heads, hidden, True), 5
    waiting, before = centred(draw(count, length, width)), draw(3, done, 2 * width)
    parents, owners = np.array([2, 0, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
    pairs = draw(9, 6 * width)[:, 2 * width:4 * width]  # of the second of three layers
    source = Attended(pairs, np.array([0, 4]), np.array([4, 5]))
    x = waiting.reshape(-1, width).copy()
    words = decoder.words(x)
    past = np.concatenate([before[parents], words[:, width:].reshape(count, length, -1)], axis=1)
    starts, counts = np.repeat(np.arange(count) * (done + length), length), np.tile(np.arange(length) + done + 1, count)
    decoder.out.add_to(x, attend(words[:, :width], past.reshape(-1, 2 * width), starts, counts, heads))
    own = np.repeat(owners, length)
    decoder.cross_out.add_to(x, attend(decoder.cross_query(x), pairs, source.starts[own], source.counts[own], heads))
    decoder.feed(x)
    wanted = x.reshape(count, length, width)
    for finished in {1, length}:
        y, found = decoder.decode(waiting, before, parents, source, owners, finished)
        np.testing.assert_array_equal(y, wanted[:, length - finished:])
        np.testing.assert_array_equal(found, past)


@pytest.mark.parametrize(("width", "hidden"), [(16, 24), (33, 8), (128, 256)])
def test_reading_and_scoring_words_are_their_steps(width: int, hidden: int) -> None:
    vectors, owners, words = draw(2, 9, width), np.array([0, 1, 1]), np.array([8, 0, 3])
    sums, answer = draw(3, width), Linear(draw(width, width), draw(width))
    wanted = vectors[owners, words]
    answer.add_to(wanted, gelu(sums + wanted))
    found = read(QueryWords(vectors, owners, words), sums, MatrixTable(answer.matrix))
    np.testing.assert_array_equal(found, centred(wanted))

    ask = Linear(draw(width, width + hidden), draw(width + hidden), True)
    inner = Linear(draw(width, hidden), draw(hidden))
    last, gain, offset = centred(draw(3, width)), draw(width), draw(width)
    after, following, offered = np.array([0, 0, 1, 2, 2, 2]), np.array([1, 2, 3, 4, 5, 6]), draw(6, width)
    asked, vector = ask(last)[after], vectors[owners[after], following]
    hidden_answer = inner(gelu(offered + vector + asked[:, :width]), gelu=True)
    scores = dots((unit(last) * gain + offset)[after], vector)
    scores += dots(asked[:, width:], hidden_answer)
    np.testing.assert_array_equal(score(last, QueryWords(vectors, owners, following), after, offered, gain, offset,
                                        MatrixTable(ask.matrix, inner.matrix), width + hidden), scores)
