"""Learning from labels through the front: train, predict, evaluate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.api import evaluate, predict
from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError
from seqtune.integrations.miopen.predictor.learned import FILE as PACKED
from seqtune.integrations.miopen.predictor.learning import LabelLearning
from seqtune.kernels.say import silent
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.checkpoint_folder import find
from seqtune.predictor.learning.kinds import TrainingRequest, learner
from seqtune.predictor.predictors import cached_checkpoint
from tests.support.command_line import Refused, Run
from tests.support.label_toys import QUICK, WINOGRAD
from tests.support.learning.progress import parted


@pytest.mark.slow
def test_a_prediction_names_the_solver_and_its_parameters(label_checkpoint: Path) -> None:
    answer = predict("conv2d n=32 c=64 h=28 k=96 r=3 pad=1", device="miopen:gfx906_60", checkpoint=label_checkpoint,
                     top=3)
    assert answer.candidates[0].configuration.kernel == WINOGRAD  # the fastest solver for large batches
    assert answer.candidates[0].configuration["n_groups"] == 60
    with pytest.raises(MisuseError, match="cannot be run here"):
        predict("conv2d c=64 h=28 k=96 r=3 pad=1", device="miopen:gfx906_60", checkpoint=label_checkpoint, verify=True)


def test_an_evaluation_scores_what_was_not_learned(label_checkpoint: Path, label_files: list[Path]) -> None:
    notes: list[str] = []
    rows = evaluate(label_files, form="miopen", checkpoint=label_checkpoint, note=notes.append).to_json()["rows"]
    assert len(notes) == 1
    assert [(row["device"], row.get("solver")) for row in rows] == [
        ("miopen:gfx906_60", "ConvMlirIgemmFwd"), ("miopen:gfx906_60", "ConvBinWinogradRxSf2x3"),
        ("miopen:gfx900_56", "ConvBinWinogradRxSf2x3"), ("miopen:gfx906_60", None)]
    assert rows[0].keys() == {"device", "solver", "n", "exact", "exact_top5", "per_parameter"}
    assert rows[-1].keys() == {"device", "n", "top1", "share", "default_share"}
    assert json.dumps(rows)


def test_the_command_line_evaluates_miopens_files(
        label_checkpoint: Path, label_files: list[Path], run: Run, refused: Refused,
        capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["evaluate", "miopen", "--checkpoint", str(label_checkpoint)]
    rows = run(*asked, "--data", *map(str, label_files[:2]))["rows"]
    assert [row["solver"] for row in rows] == ["ConvMlirIgemmFwd", *["ConvBinWinogradRxSf2x3"] * 2]
    assert main([*asked, "--data", str(label_files[1]), "--data", str(label_files[2])]) == 0
    table = capsys.readouterr().out
    assert "exact_top5" in table
    assert "default_share" in table
    for wrong in (asked, [*asked, "--data", str(label_checkpoint / "none.db")],
                  [*asked, "--data", str(label_files[0]), "--live"],
                  ["evaluate", str(label_files[0]), str(label_files[1])]):
        refused(*wrong)


@pytest.mark.usefixtures("few_trees")
def test_training_from_a_data_set_of_labels_makes_a_checkpoint_of_labels(
        label_data: Dataset, tmp_path: Path) -> None:
    label_data.write(tmp_path / "labels.parquet")
    data = Dataset.read(tmp_path / "labels.parquet")
    assert isinstance(learner(data), LabelLearning)
    said: list[str] = []
    model, report = LabelLearning(QUICK).train(data, TrainingRequest(epochs=1),
                                               parted(silent, said.append))
    assert [line.partition(":")[0] for line in said] == ["reading the labels", "training", "growing trees"]
    assert report["epochs"] == 1
    assert isinstance(cached_checkpoint(model.save(tmp_path / "out")), Checkpoint)


def test_the_shipped_checkpoint_tells_solver_and_parameters_on_gpus_it_knows_and_others() -> None:
    loaded = cached_checkpoint("miopen")
    assert isinstance(loaded, Checkpoint)
    assert json.loads((find("miopen") / "seqtune.json").read_text())["sha256"].keys() == {"model.safetensors", PACKED}
    for name in ("gfx906_60", "gfx942130", "gfx1030_36"):
        answer = predict("conv2d n=32 c=64 h=28 k=256 r=1", device=f"miopen:{name}", checkpoint="miopen", top=3)
        assert len(answer.candidates) == 3
        assert answer.candidates[0].configuration.kernel in loaded.kernels
