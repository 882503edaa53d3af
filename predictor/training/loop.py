"""Fitting: the training loop of everything in PyTorch that learns from labels.

A step learns from one lesson: the labels of one kernel, or the races of solvers. Small lessons are shown more often
than their share.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .schedule import schedule
from .state import Progressed


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


@dataclass(frozen=True, slots=True)
class LabelProgress:
    """Told after every epoch: nats in training; of what is set aside, by the average over lessons, nats and the share
    told right, per choice made after the true ones before it."""

    epoch: int
    epochs: int
    loss: float
    validation: float | None
    right: float | None
    seconds: float

    @property
    def text(self) -> str:
        """As a line."""
        judged = "" if self.right is None else f", validation loss {self.validation:.4f}, right {self.right:.4f}"
        return f"training: epoch {self.epoch}/{self.epochs}, loss {self.loss:.4f}{judged}, {self.seconds:.0f} s"


OnProgress = Callable[[LabelProgress], None]
Net = TypeVar("Net", bound=nn.Module)
Student = TypeVar("Student", bound=nn.Module, contravariant=True)
Rows = NDArray[np.int64]


class Lesson(Protocol[Student]):
    """Examples of one sort."""

    def __len__(self) -> int: ...

    def loss(self, model: Student, rows: Rows, options: LabelOptions) -> Tensor:
        """Mean nats of some examples."""
        ...

    def judge(self, model: Student, rows: Rows) -> tuple[float, float, int]:
        """Sums over the choices of some examples: nats, how many were told right, how many there are."""
        ...


def fit(model: Net, lessons: Mapping[str, Lesson[Net]], judged: Mapping[str, Lesson[Net]], race: Lesson[Net] | None,
        options: LabelOptions, fingerprint: str = "", on_progress: OnProgress | None = None,
        say: Callable[[str], None] = lambda step: None) -> Progressed[Net]:
    """Trains; the result's `average` is what to keep. Ctrl-C ends the training after at least one epoch.

    The same seed, data and machine give the same weights; `fingerprint` tells trainings apart that could be resumed.
    """
    began = time.monotonic()
    matrices = [tensor for tensor in model.parameters() if tensor.dim() > 1]
    vectors = [tensor for tensor in model.parameters() if tensor.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": options.weight_decay},
                                   {"params": vectors, "weight_decay": 0.0}], lr=options.rate, betas=(0.9, 0.99),
                                  fused=True)
    stand = Progressed.begin(model, optimizer)
    if options.state is not None and stand.load(options.state, fingerprint):
        say(f"going on after epoch {stand.epoch} of {options.epochs}")
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        while stand.epoch < options.epochs:
            loss = _epoch(stand, lessons, race, options)
            stand.epoch += 1
            validation, right = _judged(stand.average, judged) if judged else (None, None)
            told = {"loss": loss, "validation": validation, "right": right}
            stand.history.append({name: value for name, value in told.items() if value is not None})
            if options.state is not None and stand.epoch % options.save_every == 0:
                stand.save(options.state, fingerprint)
            if on_progress is not None:
                on_progress(LabelProgress(stand.epoch, options.epochs, loss, validation, right,
                                          time.monotonic() - began))
    except KeyboardInterrupt:
        if not stand.epoch:
            raise
    finally:
        torch.set_num_threads(threads)
    return stand


def shown(sizes: Sequence[int], even: float, most: float) -> list[int]:
    """How many labels of each kernel an epoch shows: altogether about as many as there are, of small kernels more than
    their share, since all kernels count alike.

    >>> shown([10_000, 100], 0.5, 3.0)
    [7106, 300]
    """
    usual = sum(sizes) / len(sizes)
    return [round(min(most * size, size**even * usual ** (1 - even))) for size in sizes]


def _epoch(stand: Progressed[Net], lessons: Mapping[str, Lesson[Net]], race: Lesson[Net] | None,
           options: LabelOptions) -> float:
    """One epoch, seeded by its number, so that a resumed training goes on the same way. Mean nats of the lessons."""
    generator = np.random.default_rng([options.seed, 2, stand.epoch])
    torch.manual_seed(options.seed * 1_000_003 + stand.epoch)
    batches: list[tuple[Lesson[Net], Rows]] = []
    counts = shown([len(lesson) for lesson in lessons.values()], options.even, options.most)
    for lesson, count in zip(lessons.values(), counts, strict=True):
        rounds = math.ceil(count / len(lesson))
        order = np.concatenate([generator.permutation(len(lesson)) for _ in range(rounds)])[:count]
        batch = min(options.batch, max(options.least_batch, count // options.steps))
        batches += [(lesson, part) for part in np.array_split(order, math.ceil(count / batch))]
    if race is not None:
        for _ in range(math.ceil(options.races * len(batches))):
            batches.append((race, generator.integers(0, len(race), min(options.race_batch, len(race)))))
    model, total, seen = stand.model.train(), 0.0, 0
    for done, place in enumerate(generator.permutation(len(batches)).tolist()):
        lesson, rows = batches[place]
        step = stand.epoch * len(batches) + done
        for group in stand.optimizer.param_groups:
            group["lr"] = options.rate * schedule(step / (options.epochs * len(batches)), options.warm_up)
        with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
            loss = lesson.loss(model, rows, options)
        stand.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        stand.optimizer.step()
        decay = min(options.average, (1 + step) / (10 + step))  # a short memory while all changes fast
        with torch.no_grad():
            torch._foreach_lerp_(list(stand.average.parameters()), list(model.parameters()), 1 - decay)
        if lesson is not race:
            total, seen = total + float(loss.detach()) * len(rows), seen + len(rows)
    return total / seen


@torch.inference_mode()
def _judged(model: Net, judged: Mapping[str, Lesson[Net]]) -> tuple[float, float]:
    """Nats per choice, and the share told right, as means over lessons."""
    model.eval()
    found = []
    for lesson in judged.values():
        parts = np.array_split(np.arange(len(lesson)), math.ceil(len(lesson) / 512))
        nats, right, count = np.sum([lesson.judge(model, rows) for rows in parts], axis=0).tolist()
        found.append((nats / count, right / count))
    nats, right = np.mean(found, axis=0).tolist()
    return nats, right
