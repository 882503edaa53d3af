"""LabelOptions: how a network is trained on another tuner's choices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LabelOptions:
    """How to train. The defaults suit a quarter of a million labels in 40 minutes on a core."""

    epochs: int = 18
    batch: int = 64  # labels of one kernel per step: kernels pull apart, so many small steps beat few large ones
    least_batch: int = 48
    steps: int = 24  # an epoch should have so many of a kernel, with batches as small as need be
    races: float = 0.12  # steps of races per step of labels, where there are any
    race_batch: int = 256
    rate: float = 1e-3  # of AdamW at its peak
    warm_up: float = 0.03  # share of the steps
    weight_decay: float = 0.05
    clip: float = 1.0  # norm of the gradient
    average: float = 0.999  # of the weights per step; the average is judged and kept
    smoothing: float = 0.01  # share of the wanted probability spread over a parameter's values: labels are noisy
    tau: float = 0.05  # of races: a solver this much slower than the best is wanted e times less
    applies: float = 0.2  # of races: how much it counts that no other solver was timed
    even: float = 0.9  # a kernel with m labels is shown m ** even times a constant per epoch; 1 shows each label once
    most: float = 2.0  # but no label more often than this per epoch
    validation: int = 16  # one problem in so many is set aside to see how the training goes; 0: none
    width: int = 128
    layers: int = 2  # of the encoder, and of the decoder
    heads: int = 4
    hidden: int = 256
    dropout: float = 0.05
    bf16: bool = True  # matrix products in 16 bits: it pays where the processor multiplies them in hardware
    seed: int = 0
    threads: int = 2
    state: Path | None = None  # folder in which the training is kept and from which it is resumed
    save_every: int = 1  # epochs
