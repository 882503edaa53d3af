"""Small data sets of labels, and a checkpoint that is trained on them in seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.integrations.miopen.predictor.labels import Labels, read_labels
from seqtune.integrations.miopen.predictor.training import train
from seqtune.predictor.training.options import label_options
from seqtune.tuner.cost_models.boosting import Boosting
from tests.support.learning.few_trees import grow_few_trees

QUICK = replace(label_options(threads=1), epochs=15, width=32, heads=2, layers=1, decoder_layers=1, hidden=64, batch=32,
                rate=4e-3, average=0.9, dropout=0.0)
Parts = tuple[dict[str, Labels], dict[str, Labels]]  # for training, and for evaluation
TREES = Boosting("", rounds=15, rate=0.3, depth=4)
MLIR, WINOGRAD = "miopen.ConvMlirIgemmFwd", "miopen.ConvBinWinogradRxSf2x3"


def read(files: list[Path]) -> Dataset:
    """Read MIOpen's files."""
    return read_files(files)[0]


def parts(data: Dataset) -> Parts:
    """Split the labels of every kernel into those for training and those for evaluation."""
    labels = read_labels(data)
    return ({name: own.take(~own.held_out) for name, own in labels.items()},
            {name: own.take(own.held_out) for name, own in labels.items()})


def trained(data: Dataset, folder: Path) -> Path:
    """Train a small translator and small trees, and save them as a checkpoint in the folder."""
    with pytest.MonkeyPatch.context() as patch:
        grow_few_trees(patch)
        checkpoint, report = train(data, QUICK)
    checkpoint.save(folder)
    assert report["timings"] > 100
    assert report["labels"] > 500
    return folder
