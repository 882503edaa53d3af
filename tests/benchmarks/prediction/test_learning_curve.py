"""The learning curve on a toy: its trainings, its page, and that a stopped program goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.prediction import learning_curve
from benchmarks.prediction.learning_curve import Material, main, page
from seqtune.data.measured_tasks import measured_tasks, split
from seqtune.errors import SeqtuneError
from seqtune.predictor.learning.options import TrainingOptions
from seqtune.predictor.learning.tasks.examples import held_out_problems, make_examples, make_teacher, vocabulary_of
from seqtune.predictor.learning.tasks.shares import OURS
from seqtune.predictor.trees.ranker import Ranker
from tests.support.learning.short_training import DATA

pytestmark = pytest.mark.usefixtures("fake_kernel")


def _material(options: TrainingOptions) -> Material:
    training, avoid = measured_tasks(DATA, held_out=False), held_out_problems(DATA)
    fitting, validation = split(training, options.validation, options.seed)
    teacher = make_teacher(fitting, options)
    assert teacher is not None
    examples = make_examples(fitting, teacher, vocabulary_of(training), options, avoid)
    return Material(fitting, validation, measured_tasks(DATA, held_out=True), avoid, Ranker.of(teacher), examples)


@pytest.fixture(name="arguments")
def _arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The arguments of a program that trains on a toy for seconds."""
    monkeypatch.setattr(Material, "of", _material)
    monkeypatch.setattr(learning_curve, "FRESH", 5)
    options = {"width": 32, "layers": 1, "heads": 2, "hidden": 64, "batch": 16, "sentences": 4, "validation": 0.2,
               "rate": 3e-3, "average": 0.9, "judge": 32, "trees": {"rounds": 20, "models": 1}}
    recipe = tmp_path / "toy.recipe.json"
    recipe.write_text(json.dumps({"data": "shipped", "options": options}))
    return ["--recipe", str(recipe), "--extra", "0", "6", "--epochs", "1", "--threads", "1",
            "--work", str(tmp_path / "work")]


def test_every_training_has_a_line_and_the_best_one_is_evaluated_on_held_out_problems(
        arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[dict[str, Any]] = []
    monkeypatch.setattr(learning_curve, "check_ready", lambda out: None)
    monkeypatch.setattr(learning_curve, "publish", lambda out, page, results, draw: written.append(results))
    main(arguments)
    (results,) = written
    assert [row["extra"] for row in results["rows"]] == [0, 6]
    for row in results["rows"]:
        assert 0 < row["agreement"] <= row["shortlist"] <= 1
        assert set(row["validation"]) == {"transformer", "trees", OURS}
    assert set(results["held_out"]) == {"transformer", "trees", OURS}
    text = page(json.loads(json.dumps(results))).markdown()
    assert "--extra 0 6 --width 32 --epochs 1 --out docs" in text
    assert text.count("\n| ") == 2 + 2
    monkeypatch.setattr(learning_curve, "trained", None)  # nothing is trained again
    main(arguments)
    assert written[1]["rows"] == results["rows"]


def test_a_program_whose_time_ends_says_that_the_same_command_goes_on(arguments: list[str]) -> None:
    with pytest.raises(SeqtuneError, match="the same command goes on"):
        main([*arguments, "--minutes", "1e-9"])
