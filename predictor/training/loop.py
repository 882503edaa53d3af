"""Loop: the training loop of every network in this package.

The parts that differ between models are passed as a `Course`: the batches of an epoch and the validation.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from seqtune.errors import MisuseError
from seqtune.tuner.stop_request import StopRequest

from .process_group import ProcessGroup, process_group
from .state import TrainingState

Net = TypeVar("Net", bound=nn.Module)
SAVE_SECONDS = 10.0  # a state is saved after an epoch if the last one is that old: a killed training loses little
STOPPING = "stopping after this epoch; Ctrl-C again stops at once, with the epoch that was saved last"


class LoopOptions(Protocol):
    """The options that every training has. Their defaults belong to each kind of model."""

    @property
    def epochs(self) -> int: ...

    @property
    def rate(self) -> float:
        """AdamW's learning rate at its peak."""

    @property
    def warm_up(self) -> float:
        """The share of the steps in which the rate rises."""

    @property
    def weight_decay(self) -> float:
        """The decay of matrices; vectors (biases, norms) do not decay."""

    @property
    def clip(self) -> float:
        """The largest norm of a gradient."""

    @property
    def average(self) -> float:
        """The decay of the running average of the weights, per step. The average is validated and kept."""

    @property
    def seed(self) -> int: ...

    @property
    def threads(self) -> int: ...

    @property
    def state(self) -> Path | None:
        """The folder in which the state of the training is saved and from which it is resumed."""

    @property
    def save_every(self) -> int:
        """The number of epochs between two saved states, if they take less than SAVE_SECONDS."""

    @property
    def end_now(self) -> bool:
        """Whether to train no further than the saved state."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[Net]):
    """The examples of one step."""

    loss: Callable[[Net, slice], Tensor]  # mean nats per example of those in the slice
    size: int  # number of examples
    counted: bool = True  # in the mean loss of the epoch


@dataclass(frozen=True, slots=True)
class Validation:
    """The result of validating the averaged weights after an epoch."""

    figures: Mapping[str, float]  # by name, for the progress line and the history
    score: float | None = None  # higher is better; None: the latest epoch counts as the best


@dataclass(frozen=True, slots=True)
class Course(Generic[Net]):
    """The examples of a training, its validation and the conditions under which it stops."""

    batches: Callable[[np.random.Generator], Sequence[Batch[Net]]]  # of one epoch, in their order
    validate: Callable[[Net], Validation] | None = None
    patience: int | None = None  # epochs without a better score after which training stops
    until: int | None = None  # stop the same schedule after this many epochs, without keeping states
    deadline: float | None = None  # `time.monotonic` before which every epoch should end: one that probably would not
    #                                does not begin; a longer one ends after a step, unless processes share it
    second_decay: float = 0.99  # AdamW's decay of squared gradients
    fused: bool = True  # AdamW in one pass over all weights: faster, and rounds differently
    first_step: int = 0  # the number that the running average gives to the first step


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a training after an epoch."""

    stage: str  # "training" or "refitting"
    epoch: int
    epochs: int
    loss: float  # mean nats per example
    best_epoch: int  # the epoch whose weights are kept so far
    seconds: float  # since the training began
    left: float | None  # seconds until the last epoch, if all take as long as those of this run and none is left out;
    #                     None after the first, which also warms up, and which alone says little
    figures: Mapping[str, float] = field(default_factory=dict)  # of the validation problems, where there are any

    @property
    def text(self) -> str:
        """The state as one line of text."""
        figures = "".join(f", {name} {value:.4f}" for name, value in self.figures.items())
        best = "" if self.best_epoch == self.epoch else f" (best in epoch {self.best_epoch})"
        loss = f"loss {self.loss:.4f}{figures}{best}"
        left = "" if not self.left else f", about {self.left:.0f} s to epoch {self.epochs}"
        return f"{self.stage}: epoch {self.epoch}/{self.epochs}, {loss}, {self.seconds:.0f} s{left}"


OnProgress = Callable[[Progress], None]


def fit(model: Net, course: Course[Net], options: LoopOptions, fingerprint: str = "",
        on_progress: OnProgress | None = None, say: Callable[[str], None] = lambda step: None,
        began: float | None = None) -> TrainingState[Net]:
    """Train a model and return the final state, whose `kept` is the trained network.

    Ctrl-C ends the training after at least one epoch. Where states are saved, the first Ctrl-C or SIGTERM lets the
    epoch end and saves its state, and the last epoch is always saved. The same seed, data and machine give the same
    weights. The processes of torchrun share every batch; their models are equal at the end of every epoch.
    `fingerprint` identifies the training in a folder of states; `began` is the `time.monotonic` from which progress
    counts its seconds. Raises FormatError if the folder of states holds another training, and MisuseError if the
    options ask to end one and it holds none.
    """
    with process_group() as group, StopRequest(
            STOPPING, options.state is not None and group.size == 1) as stop:
        return _fit(model, course, options, fingerprint, on_progress, say, began, group, stop)


def _fit(model: Net, course: Course[Net], options: LoopOptions, fingerprint: str, on_progress: OnProgress | None,
         say: Callable[[str], None], began: float | None, group: ProcessGroup,
         stop: StopRequest) -> TrainingState[Net]:
    began = time.monotonic() if began is None else began
    state = TrainingState.begin(model, _optimizer(model, course, options))
    folder = options.state if course.until is None else None
    if folder is not None and state.load(folder, fingerprint) and group.rank == 0:
        say(f"resuming after epoch {state.epoch} of {options.epochs}")
    end_now = options.end_now and course.until is None
    if end_now and not state.epoch:
        raise MisuseError(f"{folder} holds no unfinished training to end; leave out --end-now")
    stage, epochs = ("training", options.epochs) if course.until is None else ("refitting", course.until)
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    started, before = time.monotonic(), state.epoch
    saved, saved_at = state.epoch, started
    try:
        while state.epoch < epochs and not end_now and not stop.asked and not _stalled(state, course) \
                and not group.agreed({"late": float(_late(
                    course, (time.monotonic() - started) / max(1, state.epoch - before)))})["late"]:
            loss = _epoch(state, course, options, group)
            validation = _validation(state.average, course, group)
            state.finish_epoch(loss, validation.figures, validation.score)
            due = (state.epoch % options.save_every == 0 or time.monotonic() - saved_at > SAVE_SECONDS
                   or stop.asked or state.epoch == epochs or _stalled(state, course))
            if folder is not None and due and group.rank == 0:
                state.save(folder, fingerprint)
                saved, saved_at = state.epoch, time.monotonic()
            if on_progress is not None and group.rank == 0:
                now = time.monotonic()
                left = (now - started) / done * (epochs - state.epoch) if (done := state.epoch - before) > 1 else None
                on_progress(Progress(stage, state.epoch, epochs, loss, state.best_epoch, now - began, left,
                                     validation.figures))
        if stop.asked:
            if folder is not None and saved < state.epoch:
                state.save(folder, fingerprint)
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        if not state.epoch:
            raise
        state.interrupted = True
    finally:
        torch.set_num_threads(threads)
    group.wait()
    return state


def _validation(average: Net, course: Course[Net], group: ProcessGroup) -> Validation:
    """The validation of the averaged weights, which all processes agree on."""
    if course.validate is None:
        return Validation({})
    validation = course.validate(average)
    if validation.score is None:
        return Validation(group.agreed(validation.figures))
    figures = group.agreed({**validation.figures, "": validation.score})
    return Validation(figures, figures.pop(""))


def _optimizer(model: nn.Module, course: Course[Net], options: LoopOptions) -> torch.optim.AdamW:
    matrices = [tensor for tensor in model.parameters() if tensor.dim() > 1]
    vectors = [tensor for tensor in model.parameters() if tensor.dim() <= 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": options.weight_decay},
                              {"params": vectors, "weight_decay": 0.0}], lr=options.rate,
                             betas=(0.9, course.second_decay), fused=course.fused)


def _stalled(state: TrainingState[Net], course: Course[Net]) -> bool:
    """Return whether the last `course.patience` epochs brought no better score."""
    return course.patience is not None and state.epoch - state.best_epoch >= course.patience


def _late(course: Course[Net], seconds: float) -> bool:
    """Return whether an epoch of that many seconds would end after the deadline."""
    return course.deadline is not None and time.monotonic() + seconds > course.deadline


def schedule(done: float, warm_up: float) -> float:
    """The learning rate relative to its peak after the share `done` of the steps.

    It rises linearly to 1 during the share `warm_up`, then falls along a cosine to 0.02.
    """
    if done < warm_up:
        return (done + 1e-3) / (warm_up + 1e-3)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))


def _epoch(state: TrainingState[Net], course: Course[Net], options: LoopOptions, group: ProcessGroup) -> float:
    """Train one epoch and return its mean loss. The seed depends on the epoch, so a resumed training gives the same."""
    generator = np.random.default_rng([options.seed, 2, state.epoch])
    torch.manual_seed(options.seed * 1_000_003 + state.epoch)
    batches = course.batches(generator)
    total, model = 0.0, state.model.train()
    counted = 0  # examples in the mean loss
    for step, batch in enumerate(batches, state.epoch * len(batches)):
        if counted and group.size == 1 and _late(course, 0.0):
            break
        for parameters in state.optimizer.param_groups:
            parameters["lr"] = options.rate * schedule(step / (options.epochs * len(batches)), options.warm_up)
        part, share = group.part(batch.size)
        loss = batch.loss(model, part)
        state.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        mean = group.sum_gradients(model, loss, share)
        torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        state.optimizer.step()
        number = step + course.first_step
        decay = min(options.average, (1 + number) / (10 + number))  # a short memory while everything changes fast
        with torch.no_grad():
            torch._foreach_lerp_(list(state.average.parameters()), list(model.parameters()), 1 - decay)
        if batch.counted:
            total += mean * batch.size
            counted += batch.size
    return total / counted
