"""LabelLearning: recipes of trainings on labels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.predictor.learning import LabelLearning
from seqtune.kernels.say import silent
from seqtune.predictor.learning.kinds import TrainingRequest
from seqtune.predictor.learning.recipe import Recipe
from seqtune.predictor.training.options import label_options
from tests.support.label_toys import QUICK


@pytest.mark.usefixtures("few_trees")
def test_a_recipe_gives_all_options_of_a_training_on_labels(label_data: Dataset) -> None:
    recipe = Recipe("mine.recipe.json", None, replace(QUICK, epochs=1, seed=7))
    model, report = LabelLearning().train(label_data, TrainingRequest(recipe=recipe), silent)
    assert report["epochs"] == 1
    assert model.seed == 7
    assert model.provenance["recipe"] == "mine.recipe.json"


def test_the_shipped_labels_have_their_recipe() -> None:
    recipe = Recipe.read("miopen")
    assert recipe.needs_data
    assert recipe.options == replace(label_options(threads=1), refit=True)
