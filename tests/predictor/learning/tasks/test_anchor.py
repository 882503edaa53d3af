"""The anchor of a retraining: what the old translator and its judge say of rehearsed examples is learned already."""

from __future__ import annotations

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks
from seqtune.predictor.learning.tasks.examples import make_examples, vocabulary_of
from seqtune.predictor.learning.tasks.loss import sentence_loss
from seqtune.predictor.learning.tasks.targets import TargetSentences
from seqtune.predictor.training.options import TrainingOptions
from tests.support.learning.translators import small_translator
from tests.support.synthetic import data

pytestmark = pytest.mark.usefixtures("fake_kernel")


def test_what_is_held_to_an_anchor_is_learned_already_where_the_translator_is_the_anchor() -> None:
    tasks = measured_tasks(data(8, held_out=1, sampled=80), held_out=False)[:6]
    vocabulary = vocabulary_of(tasks)
    examples = make_examples(tasks, None, vocabulary, TrainingOptions(), [])
    model = small_translator(vocabulary, 32, hidden=64, judge=16).eval()
    generator = np.random.default_rng(0)
    targets = TargetSentences.joined([example.tree.sample(generator, 2, 0.0) for example in examples.measured])
    about = [example.source for example in examples.measured], targets
    lists = [example.tree.landscape(generator, 12) for example in examples.measured]

    def loss(held: float) -> float:
        return float(sentence_loss(model, *about, model, np.full(2 * len(examples), held), lists).detach())

    assert loss(1.0) == pytest.approx(0.0, abs=1e-5)
    assert 0.001 < loss(0.5) < loss(0.0) == pytest.approx(
        float(sentence_loss(model, *about, landscapes=lists).detach()))
