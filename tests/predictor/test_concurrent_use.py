"""Threads may share a checkpoint: what one of them remembers or forgets does not disturb another."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.spaces import value_tables
from seqtune.predictor.sequence.vocabulary import Vocabulary
from seqtune.predictor.translator import numpy_translator
from seqtune.predictor.translator.numpy_translator import NumpyTranslator, PositionVectors
from tests.support.learning.interruptions import interrupted
from tests.support.learning.translators import small_translator
from tests.support.synthetic import DIRECT, MIDDLE, WIDE

VOCABULARY = Vocabulary.build([DIRECT], [WIDE, MIDDLE])
FIRST, SECOND = parse_problem("conv2d c=16 h=14 k=32 r=3"), parse_problem("conv2d c=30 h=28 k=48 r=5")


@pytest.fixture
def arrays() -> NumpyTranslator:
    model = small_translator(VOCABULARY)
    return NumpyTranslator(model.size, model.arrays(), VOCABULARY)


@pytest.mark.parametrize("remembered", [FIRST, SECOND])
def test_the_vectors_of_a_query_stay_its_own(arrays: NumpyTranslator, remembered: Problem) -> None:
    alone = [array.copy() for array in arrays.encoded(FIRST, WIDE)]
    arrays.encoded(remembered, WIDE)
    vectors = interrupted(lambda: arrays.encoded(FIRST, WIDE), lambda: arrays.encoded(SECOND, WIDE), numpy_translator)
    assert all(np.array_equal(array, expected) for array, expected in zip(vectors, alone, strict=True))


def test_the_vectors_of_facts_stay_their_own() -> None:
    read = PositionVectors(small_translator(VOCABULARY).arrays(), VOCABULARY, most=3).read
    alone = read([(FIRST, WIDE)])[0]
    vectors, *_ = interrupted(lambda: read([(FIRST, WIDE)]), lambda: read([(SECOND, MIDDLE)]), numpy_translator)
    assert np.array_equal(vectors, alone)


def test_the_tables_of_a_problem_stay_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_tables, "MOST_KNOWN", 1)

    def tables(index: int) -> list[object]:
        problem, device = ((FIRST, WIDE), (SECOND, MIDDLE))[index]
        made = value_tables.ValueTables(DIRECT, {**problem.names(), **device.names()})
        return [np.asarray(made.evaluate(expression)).tolist() for expression in made.layout.derived.values()]

    alone = tables(0)
    assert any(alone)
    assert interrupted(lambda: tables(0), lambda: tables(1), value_tables) == alone
