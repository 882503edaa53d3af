"""TrainingOptions: how a translator is trained on measured times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..option_bounds import Count, Number, Part, Positive
from ..trees.cost_trees import TreesOptions

TREES = TreesOptions()  # the teacher has the settings of the baseline


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """The options of a training. The defaults suit some hundred problems on a few devices: minutes on two cores.

    The names of the fields are also those of a checkpoint's provenance, and of a recipe (`recipe`). What every training
    has in common is a constant beside the code that reads it.
    """

    epochs: Count = 40
    patience: Count = 20  # epochs without a better validation score after which training stops; the score is noisy
    batch: Count = 32  # problems, each on a device, in one step
    sentences: Count = 8  # sentences drawn for each problem of a step; few suffice, since their targets are soft
    rate: Positive = 1.5e-3  # peak learning rate of AdamW; high, since the model is small
    warm_up: Part = 0.05  # share of the steps
    average: Part = 0.995  # decay of the running average of the weights, which is validated and kept
    tau: Positive = 0.04  # this much slower than the best is e times less probable; about the noise of times
    validation: Part = 0.12  # share of the problems; 0 trains all epochs on all problems
    refit: bool = False  # then train again on all problems for the best number of epochs: doubles the time
    trees: TreesOptions = TREES  # settings of the teacher
    teacher: bool = True  # whether trees estimate times that were not measured; else only measured rows count
    confidence: bool = True  # whether to estimate how sure proposals are, which fits trees up to seven times
    extra: Number = 0  # sampled problems whose times the teacher estimates, each on one device
    examples: Count = 3000  # of an epoch; the rest beside the measured problems are sampled ones
    width: Count = 128
    layers: Count = 3  # of the encoder, which reads a problem once
    decoder_layers: Count = 1  # every step of a beam pays; few suffice after a deep encoder (Kasai et al. 2021)
    heads: Count = 4
    hidden: Count = 256
    dropout: Part = 0.05
    judge: Number = 192  # hidden width of the judge of whole configurations; 0: none
    listed: Count = 48  # configurations of each problem of a step that the judge learns to order
    judge_epochs: Number = 0  # then the judge alone learns anew; beside the translator's larger loss it learns slowly
    seed: Number = 0
    threads: Count = 2
    state: Path | None = None  # folder in which the training's state is saved and from which it resumes
    save_every: Count = 5  # epochs between two saved states
    end_now: bool = False  # train no further than the saved state, and leave out the refitting


# Of a training on choices alone: they are thousands and their trees cost most, so these are fewer
CHOICE_TREES = TreesOptions(rounds=200, rate=0.12, least_weight=1.0, models=2)


def choice_options(seed: int = 0, threads: int = 2) -> TrainingOptions:
    """The options for choices without times: a smaller network, since most choices cannot be told from near ties.

    About half of the examples are on drawn GPUs. Without these a translator learns the few chips by heart: trained
    longer, it agreed less with the choices on a chip that was left out.
    """
    return TrainingOptions(epochs=12, patience=6, sentences=4, examples=1500, extra=8000, width=96, layers=2,
                           hidden=192, judge=96, confidence=False, trees=CHOICE_TREES, seed=seed, threads=threads)


def label_options(threads: int = 2) -> TrainingOptions:
    """The options for another tool's labels, of which 230,000 take 80 minutes on a busy core; the others are not read.

    Gradients of kernels differ, so many small steps are better.
    """
    return TrainingOptions(epochs=18, batch=64, rate=1e-3, warm_up=0.03, average=0.999, tau=0.05, layers=2,
                           decoder_layers=2, judge=0, save_every=1, threads=threads)
