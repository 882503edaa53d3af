"""Tests of validation: its proposals are those of predictions with the same weights."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import ChosenTask, MeasuredTask, Task
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.validation import COUNT, log_share, validate
from seqtune.predictor.sequence.beam import search_numbers_many
from seqtune.predictor.sequence.vocabulary import Vocabulary
from tests.support.learning.translators import small_translator
from tests.support.synthetic import DIRECT, WIDE

TASKS = [Task.of(parse_problem(text), WIDE, [DIRECT]) for text in (
    "conv2d c=64 h=56 k=48 r=3", "conv2d c=30 h=14 k=32 r=1", "conv2d c=3 h=28 k=8 r=5 stride_h=2 stride_w=2")]
VOCABULARY = Vocabulary.build([DIRECT], [WIDE])


def test_a_translator_is_validated_by_the_words_and_the_beam_of_predictions() -> None:
    model, generator = small_translator(VOCABULARY), np.random.default_rng(0)
    measured = [MeasuredTask(task, generator.random(len(task)) + 0.1) for task in TASKS]
    found = search_numbers_many(Checkpoint.of_translator(model, VOCABULARY).next_word(), TASKS, COUNT, COUNT)
    shares = [[log_share(known, number) for number in numbers.tolist()]
              for known, (numbers, _) in zip(measured, found, strict=True)]
    weighted = [np.average(logs, weights=np.exp(logs_of_beam) + 1e-12)
                for logs, (_, logs_of_beam) in zip(shares, found, strict=True)]
    assert validate(model, VOCABULARY, measured) == pytest.approx(
        (np.mean(weighted), np.mean([logs[0] for logs in shares])))


def test_choices_are_validated_by_their_agreement() -> None:
    model = small_translator(VOCABULARY)
    first = search_numbers_many(Checkpoint.of_translator(model, VOCABULARY).next_word(), TASKS[:1], COUNT, COUNT)[0][0]
    chosen = ChosenTask(TASKS[0], first[:1], np.ones(1))
    assert validate(model, VOCABULARY, [chosen])[1] == 0
