"""Small data sets of labels, and a checkpoint that is trained on them in seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.miopen_import import read_files
from seqtune.data.labels import Labels, read_labels
from seqtune.predictor.choices.classifier_chain import ChainOptions
from seqtune.predictor.learning.choices.options import ChoiceOptions
from seqtune.predictor.learning.choices.whole_training import train_model
from tests.support.learning.few_trees import grow_few_trees

QUICK = ChoiceOptions(epochs=15, width=32, heads=2, layers=1, hidden=64, batch=64, rate=6e-3, average=0.9, dropout=0.0,
                     threads=1, validation=0, most=10.0, even=0.8, races=0.25, race_batch=512, smoothing=0.05,
                     bf16=False)
Parts = tuple[dict[str, Labels], dict[str, Labels]]  # for training, and for evaluation
TREES = ChainOptions(rounds=15, rate=0.3, depth=4, threads=1)
MLIR, WINOGRAD = "miopen.ConvMlirIgemmFwd", "miopen.ConvBinWinogradRxSf2x3"


def read(files: list[Path]) -> Dataset:
    """Read MIOpen's files."""
    return read_files(files)[0]


def parts(data: Dataset) -> Parts:
    """Split the labels of every kernel into those for training and those for evaluation."""
    split = {name: labels.split() for name, labels in read_labels(data).items()}
    return {name: part[0] for name, part in split.items()}, {name: part[1] for name, part in split.items()}


def trained(data: Dataset, folder: Path) -> Path:
    """Train a small translator and small trees, and save them as a checkpoint in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        grow_few_trees(patch)
        checkpoint, report = train_model(data, QUICK)
    checkpoint.save(folder)
    assert report["races"] > 100
    assert report["labels"] > 500
    return folder
