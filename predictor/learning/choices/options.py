"""ChoiceOptions: how a network is trained on another tuner's choices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ChoiceOptions:
    """Options of a training. With the defaults, 250,000 labels take 40 minutes on one core."""

    epochs: int = 18
    batch: int = 64  # labels of one kernel per step: gradients of kernels differ, so many small steps are better
    least_batch: int = 48  # labels per step of a kernel with few labels
    steps: int = 24  # wanted steps of a kernel per epoch; batches shrink to `least_batch` to reach them
    races: float = 0.12  # steps on solver timings per step on labels
    race_batch: int = 256  # queries with timings per step
    rate: float = 1e-3  # AdamW's learning rate at its peak
    warm_up: float = 0.03  # share of the steps in which the rate rises
    weight_decay: float = 0.05  # of matrices
    clip: float = 1.0  # largest norm of a gradient
    average: float = 0.999  # decay of the running average of the weights, per step; the average is validated and kept
    smoothing: float = 0.01  # share of the wanted probability spread over a parameter's values: labels are noisy
    tau: float = 0.05  # of timings: a solver slower by this share has 1/e of the target probability
    applies: float = 0.2  # of timings: weight of the loss term for "the fastest solver is among the timed ones"
    even: float = 0.9  # a kernel with m labels gets m ** even times a constant per epoch; with 1, each label once
    most: float = 2.0  # maximum number of times that an epoch shows a label
    validation: int = 16  # one problem in 16 is used for validation; 0: none
    width: int = 128
    layers: int = 2  # of the encoder, and of the decoder
    heads: int = 4
    hidden: int = 256
    dropout: float = 0.05
    bf16: bool = True  # matrix products in 16 bits: faster on processors with bfloat16 instructions
    seed: int = 0
    threads: int = 2
    state: Path | None = None  # folder to which the training is saved and from which it is resumed
    save_every: int = 1  # epochs between two saved states
    end_now: bool = False  # train no further than the saved state
