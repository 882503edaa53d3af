"""A small synthetic data set, and options of a training on it that takes a second: it estimates no confidence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seqtune.data.measured_tasks import Data, measured_tasks
from seqtune.kernels.say import silent
from seqtune.predictor.checkpoint import Checkpoint
from seqtune.predictor.learning.tasks.examples import held_out_problems
from seqtune.predictor.learning.tasks.training import train_model
from seqtune.predictor.training.options import TrainingOptions
from seqtune.predictor.training.progress import Epoch
from seqtune.predictor.trees.cost_trees import TreesOptions
from tests.support.learning.progress import parted
from tests.support.synthetic import data

DATA = data(16, held_out=4, sampled=40)
QUICK = TrainingOptions(epochs=6, batch=16, sentences=4, rate=3e-3, average=0.9, extra=0, width=32, layers=1, heads=2,
                        hidden=64, validation=0.2, confidence=False, threads=1, save_every=3,
                        trees=TreesOptions(rounds=30, models=1))


def train(dataset: Data, options: TrainingOptions | None = None,
          epochs: Callable[[Epoch], object] = silent) -> tuple[Checkpoint, dict[str, Any]]:
    """Train on all training problems of a data set."""
    return train_model(measured_tasks(dataset, held_out=False), held_out_problems(dataset), options,
                       parted(epochs))
