"""Confidence refitting: a trained checkpoint gets a new confidence model, from the problems that it did not see."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from seqtune.data.measured_tasks import measured_tasks, split
from seqtune.errors import MisuseError
from seqtune.predictor.confidence import confidence_fitting
from seqtune.predictor.confidence.confidence_model import ConfidenceModel
from seqtune.predictor.times.checkpoint import Checkpoint
from seqtune.predictor.times.confidence_refitting import refit_confidence
from seqtune.predictor.times.training_examples import vocabulary_of
from seqtune.predictor.times.training_options import TrainingOptions
from seqtune.predictor.times.translator import Translator
from seqtune.predictor.trees.cost_trees import Trees, TreesOptions
from seqtune.predictor.trees.ranker import Ranker
from tests.support.synthetic import data, registered

OPTIONS = TrainingOptions(trees=TreesOptions(rounds=10, models=2), threads=1, validation=0.4)
REGISTERED = data(16, held_out=2, sampled=40)


def checkpoint_of(cases: int) -> Checkpoint:
    """An untrained checkpoint that claims so many validation cases."""
    training = measured_tasks(REGISTERED, held_out=False)
    vocabulary = vocabulary_of(training)
    model = Translator.of(vocabulary, width=16, layers=1, heads=2, hidden=16)
    options = {name: value for name, value in asdict(OPTIONS).items() if name in ("validation", "seed", "refit")}
    return Checkpoint.of_model(model, vocabulary, {"options": options}, {"validation_cases": cases},
                               ranker=Ranker.of(Trees(training, OPTIONS.trees)))


@pytest.mark.usefixtures("fake_kernel")
def test_a_checkpoint_gets_a_new_confidence_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    with registered():
        monkeypatch.setattr(confidence_fitting, "LEAST_TASKS", 4)
        _, validation = split(measured_tasks(REGISTERED, held_out=False), OPTIONS.validation, OPTIONS.seed)
        before = checkpoint_of(len(validation))
        after = refit_confidence(before, REGISTERED, OPTIONS)
    assert before.estimator is None
    assert isinstance(after.estimator, ConfidenceModel)
    assert after.estimator.first.usual_doubt > 0, "the beam search took part"
    assert set(after.estimator.first.scales) <= set(after.estimator.devices)
    assert after.ranker is before.ranker
    assert all(np.array_equal(after.state[name], array) for name, array in before.state.items())


@pytest.mark.usefixtures("fake_kernel")
def test_data_and_options_of_another_training_are_refused() -> None:
    with registered():
        _, validation = split(measured_tasks(REGISTERED, held_out=False), OPTIONS.validation, OPTIONS.seed)
        with pytest.raises(MisuseError, match="validation cases"):
            refit_confidence(checkpoint_of(len(validation) + 1), REGISTERED, OPTIONS)
        with pytest.raises(MisuseError, match="seed"):
            refit_confidence(checkpoint_of(len(validation)), REGISTERED, replace(OPTIONS, seed=7))
        with pytest.raises(MisuseError, match="train it again"):
            refit_confidence(replace(checkpoint_of(1), provenance={}), REGISTERED, OPTIONS)
