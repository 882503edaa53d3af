"""Recipes: files with the data set and the options of a training."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from seqtune.errors import FormatError, MisuseError
from seqtune.predictor.learning.recipe import OF_A_RUN, SETTLED, Recipe, options_from
from seqtune.predictor.predictors import SHIPPED
from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.training.state import describe
from seqtune.predictor.trees.cost_trees import COLUMNS, SUBSAMPLE, TreesOptions
from seqtune.predictor.trees.forest import WORST
from seqtune.tuner.cost_models.machine_ratios import SPREAD


def _written(folder: Path, content: object) -> Path:
    path = folder / "toy.recipe.json"
    path.write_text(json.dumps(content))
    return path


def test_a_recipe_gives_the_data_set_and_every_option_of_a_training(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    path = _written(tmp_path / "deep", {"data": "../times.parquet", "about": "an hour", "options": {
        "epochs": 3, "rate": 1, "extra": 100_000, "trees": {"models": 5}}})
    recipe = Recipe.read(path)
    assert recipe == Recipe("toy.recipe.json", path.parent / "../times.parquet", TrainingOptions(
        epochs=3, rate=1.0, extra=100_000, trees=TreesOptions(models=5)), about="an hour")


def test_all_options_of_a_training_but_those_of_a_run_can_stand_in_a_recipe(tmp_path: Path) -> None:
    described = {name: value for name, value in describe(TrainingOptions()).items() if name not in OF_A_RUN}
    assert set(described) == {field.name for field in fields(TrainingOptions)} - set(OF_A_RUN)
    recipe = Recipe.read(_written(tmp_path, {"data": "shipped", "options": described}))
    assert recipe.options == TrainingOptions()
    assert recipe.data is None


def test_options_of_earlier_versions_that_are_constants_now_may_be_named_with_their_value_alone(tmp_path: Path) -> None:
    earlier: dict[str, Any] = {**describe(TrainingOptions()), **SETTLED[TrainingOptions]}
    earlier["trees"] = {**earlier["trees"], **SETTLED[TreesOptions]}
    assert options_from(earlier) == TrainingOptions()
    assert SETTLED[TreesOptions] == {"subsample": SUBSAMPLE, "columns": COLUMNS, "worst": WORST, "jitter": SPREAD,
                                     "focus": 1.0}
    for options, fault in (({"clip": 2.0}, "options: clip is always 1.0 in this version; leave it out"),
                           ({"trees": {"focus": 0.5}}, "options.trees: focus is always 1.0 in this version")):
        with pytest.raises(FormatError, match=fault):
            Recipe.read(_written(tmp_path, {"data": "shipped", "options": options}))


@pytest.mark.parametrize(("options", "fault"), [
    ({"epoch": 3}, "options.epoch: "), ({"epochs": 0}, "options.epochs: "), ({"epochs": 2.5}, "options.epochs: "),
    ({"dropout": 1}, "options.dropout: "), ({"trees": {"depths": 3}}, "options.trees.depths: "),
    ({"state": "here"}, "options.state: "), ({"trees": 3}, "options.trees: ")])
def test_a_wrong_option_is_refused_in_one_line_that_names_it(
        options: dict[str, Any], fault: str, tmp_path: Path) -> None:
    path = _written(tmp_path, {"data": "shipped", "options": options})
    with pytest.raises(FormatError, match=fault) as refusal:
        Recipe.read(path)
    assert str(refusal.value).startswith(f"{path} is no recipe: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("text", ["[", "[]", "{}", '{"data": "shipped", "options": {}, "more": 1}', "\xff"])
def test_what_is_no_recipe_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FormatError, match="is no recipe: ") as refusal:
        Recipe.read(path)
    assert "\n" not in str(refusal.value)
    with pytest.raises(FormatError, match="cannot read"):
        Recipe.read(tmp_path / "none.json")


def test_a_recipe_without_a_data_set_takes_the_users_and_says_how_to_make_one(tmp_path: Path) -> None:
    recipe = Recipe.read(_written(tmp_path, {"data": None, "about": "Import the files of a tool.", "options": {}}))
    assert recipe.needs_data
    assert recipe.data_set("mine") == "mine"
    with pytest.raises(MisuseError, match=r"has no data set of its own; name one \(DATA\)\. Import the files"):
        recipe.data_set(None)
    own = Recipe.read(_written(tmp_path, {"data": "own.parquet", "options": {}}))
    assert own.data_set(None) == tmp_path / "own.parquet"
    with pytest.raises(MisuseError, match="leave out the others"):
        own.data_set("mine")


def test_the_shipped_checkpoint_has_its_recipe() -> None:
    assert "default" in SHIPPED
    recipe = Recipe.read("default")
    assert recipe.name == "default.recipe.json"
    assert recipe.data is None
