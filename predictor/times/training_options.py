"""TrainingOptions: how a translator is trained on measured times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..trees.cost_trees import TreesOptions

TREES = TreesOptions()  # the teacher is no other than the baseline


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How to train. The defaults suit some hundred problems on a handful of devices, in minutes on two cores."""

    epochs: int = 60
    patience: int = 25  # epochs without a better validation score, after which training stops: the score is noisy
    batch: int = 32  # problems (with their device) per step
    sentences: int = 8  # drawn for each of them per step: their targets are soft, so few tell much
    rate: float = 1.5e-3  # of AdamW at its peak; the model is small
    warm_up: float = 0.05  # share of the steps
    weight_decay: float = 0.05
    clip: float = 1.0  # norm of the gradient
    average: float = 0.995  # of the weights per step; the average is judged and kept: it is steadier than the last step
    tau: float = 0.04  # a configuration this much slower than the best is wanted e times less: about the noise
    explore: float = 0.25  # share of sentences drawn from a 4 times flatter distribution, for the beam's other paths
    validation: float = 0.12  # share of the problems; 0 trains all epochs on all problems
    refit: bool = False  # then train again on all problems for as many epochs as were best: twice the time
    trees: TreesOptions = TREES  # of the teacher
    teacher: bool = True  # fill in what was not measured; without it only measured rows are learned from
    trust: float = 1.0  # of a measured row in its own time; the rest is the teacher's: 1 suits times as good as ours
    extra: int = 5000  # problems sampled and labelled by the teacher, each for one of the devices: odd sizes need many
    lessons: int = 2000  # in an epoch: all of the measured problems, and as many of the sampled ones as make it up
    width: int = 128
    layers: int = 3
    heads: int = 4
    hidden: int = 256
    dropout: float = 0.05
    seed: int = 0
    threads: int = 2
    state: Path | None = None  # folder in which the training is kept and from which it is resumed
    save_every: int = 5  # epochs
