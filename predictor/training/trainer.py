"""EpochTrainer: the Trainer of Hugging Face transformers, which trains every network of this package.

What differs between networks is passed as a `Course`: the loss, the batches of an epoch and the validation. The Trainer
runs the epochs that a `TrainingState` lacks, on the CPU and in one process, and writes nothing: a state is one file of
ours, which replaces the former at once and holds no pickle. After every step the running average of the weights
follows, which is validated and kept. Since batches and dropout depend only on the seed and the number of the epoch, a
resumed training gives the weights of an undisturbed one.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from seqtune.errors import MisuseError, check_installed
from seqtune.kernels.say import silent
from seqtune.tuner.stop_request import StopRequest

from .conditions import no_launcher
from .options import TrainingOptions
from .progress import Epoch, Progress
from .state import TrainingState

check_installed("train", "accelerate")  # the Trainer misses it only when it is made

Net = TypeVar("Net", bound=nn.Module)
Batch = TypeVar("Batch")
SAVE_SECONDS = 10.0  # a state is saved after an epoch if the last one is that old: a killed training loses little
STOPPING = "stopping after this epoch; Ctrl-C again stops at once, with the epoch that was saved last"
WEIGHT_DECAY = 0.05  # of matrices; vectors (biases, norms) do not decay. Every shipped checkpoint was trained with it
CLIP = 1.0  # largest norm of the gradient, with which every shipped checkpoint was trained
METRIC = "eval_"  # begins the names of Trainer's metrics of validation


@dataclass(frozen=True, slots=True)
class Course(Generic[Net, Batch]):
    """The examples of a training, its validation and the conditions under which it stops."""

    loss: Callable[[Net, Batch], Tensor]  # mean nats per example of a batch
    batches: Callable[[np.random.Generator], Iterable[Batch]]  # of one epoch, in their order
    steps: int  # number of batches in every epoch
    validate: Callable[[Net], Mapping[str, float]] | None = None  # figures by name, for the progress line and the
    #                       history. Of these the `score`, higher is better, says which epoch is best; without one it is
    #                       the latest
    patience: int | None = None  # epochs without a better score after which training stops
    until: int | None = None  # stop the same schedule after this many epochs, without keeping states
    deadline: float | None = None  # `time.monotonic` before which every epoch should end: one that probably would not
    #                                does not begin; a longer one ends after a step
    second_decay: float = 0.98  # AdamW's decay of squared gradients
    fused: bool = False  # AdamW in one pass over all weights: faster where steps are short, and rounds differently


class Learner(nn.Module, Generic[Net, Batch]):
    """A network as the Trainer learns it: `forward` gives the loss of a batch."""

    def __init__(self, network: Net, loss: Callable[[Net, Batch], Tensor]) -> None:
        super().__init__()
        self.network, self._loss = network, loss

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The mean loss of a batch in nats per example."""
        return {"loss": self._loss(self.network, batch)}


class Training(TrainerCallback, Generic[Net, Batch]):  # type: ignore[misc]
    """A training while it runs: what the Trainer calls after every step and every epoch.

    Iterating gives the batches of the next epoch.
    """

    def __init__(self, state: TrainingState[Net], course: Course[Net, Batch], options: TrainingOptions,
                 stop: StopRequest, save: Callable[[], None] | None, progress: Progress, began: float) -> None:
        self.state, self.course, self.options = state, course, options
        self.first = state.epoch  # epochs before this run
        self.epochs = options.epochs if course.until is None else course.until
        self._stop, self._save, self._progress, self._began = stop, save, progress, began
        self._run_began = self._saved_at = time.monotonic()
        self._saved = state.epoch

    def __len__(self) -> int:
        return self.course.steps

    def __iter__(self) -> Iterator[dict[str, Batch]]:
        seed, epoch = self.options.seed, self.state.epoch
        torch.manual_seed(seed * 1_000_003 + epoch)
        for batch in self.course.batches(np.random.default_rng([seed, 2, epoch])):
            yield {"batch": batch}

    def step(self, done: int) -> int:
        """The number of steps since the first epoch, `done` of them in this run."""
        return self.first * len(self) + done

    def rate(self, done: int) -> float:
        """The learning rate relative to its peak after `done` steps of this run."""
        return schedule(self.step(done) / (self.options.epochs * len(self)), self.options.warm_up)

    @property
    def goes_on(self) -> bool:
        """Whether a further epoch begins."""
        state, course, now = self.state, self.course, time.monotonic()
        mean = (now - self._run_began) / max(1, state.epoch - self.first)  # seconds of an epoch
        return (state.epoch < self.epochs and not self._stop.asked
                and not (course.patience is not None and state.epoch - state.best_epoch >= course.patience)
                and not (course.deadline is not None and now + mean > course.deadline))

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Average the weights, with a short memory while everything changes fast."""
        number = self.step(state.global_step)
        decay = min(self.options.average, (1 + number) / (10 + number))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.state.average.parameters()), list(self.state.model.parameters()), 1 - decay)
        if self.course.deadline is not None and time.monotonic() > self.course.deadline:
            control.should_training_stop = True

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **others: Any) -> None:
        """Count the epoch, which the Trainer has just validated; save, report and perhaps stop."""
        figures = {name.removeprefix(METRIC): value for name, value in metrics.items()}
        loss = state.log_history[-1]["loss"]
        self.state.finish_epoch(loss, figures)
        epoch, now = self.state.epoch, time.monotonic()
        if epoch % self.options.save_every == 0 or now - self._saved_at > SAVE_SECONDS or not self.goes_on:
            self._save_state()
        done, now = epoch - self.first, time.monotonic()
        left = (now - self._run_began) / done * (self.epochs - epoch) if done > 1 else None
        self._progress(Epoch("training" if self.course.until is None else "refitting", epoch, self.epochs,
                             loss, self.state.best_epoch, now - self._began, left, figures))
        if not self.goes_on:  # a report may have been answered by Ctrl-C
            self._save_state()
            control.should_training_stop = True

    def _save_state(self) -> None:
        """Save the state, unless its epoch is saved already."""
        if self._save is not None and self._saved < self.state.epoch:
            self._save()
            self._saved, self._saved_at = self.state.epoch, time.monotonic()


class EpochTrainer(Trainer):  # type: ignore[misc]
    """The Trainer of a training: its batches, optimizer, schedule and validation are ours."""

    control: Any

    def __init__(self, training: Training[Any, Any]) -> None:
        self.training = training
        state = training.state
        arguments = TrainingArguments(
            output_dir=tempfile.gettempdir(),  # must exist; nothing is written there
            num_train_epochs=training.epochs - state.epoch, max_grad_norm=CLIP, eval_strategy="epoch",
            logging_strategy="epoch", logging_nan_inf_filter=False, save_strategy="no",
            report_to="none", disable_tqdm=True, use_cpu=True)
        super().__init__(Learner(state.model, training.course.loss), arguments, eval_dataset=(), callbacks=[training],
                         optimizers=(state.optimizer, LambdaLR(state.optimizer, training.rate)))
        self.remove_callback(PrinterCallback)

    def get_train_dataloader(self) -> Training[Any, Any]:
        """The batches of the epochs."""
        return self.training

    def evaluate(self, *given: Any, **named: Any) -> dict[str, float]:
        """The figures of the averaged weights on the course's validation problems; none without such problems."""
        validate = self.training.course.validate
        figures = {} if validate is None else validate(self.training.state.average)
        metrics = {METRIC + name: value for name, value in figures.items()}
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics


def fit(network: Net, course: Course[Net, Any], options: TrainingOptions, fingerprint: str = "",
        progress: Progress = silent, began: float | None = None) -> TrainingState[Net]:
    """Train a network and return the final state, whose `kept` is the trained network.

    Ctrl-C ends the training after at least one epoch. Where states are saved, the first Ctrl-C or SIGTERM lets the
    epoch end and saves its state, and the last epoch is always saved. The same seed, data and machine give the same
    weights. `fingerprint` identifies the training in a folder of states; `began` is the `time.monotonic` from which
    progress counts its seconds. Raises FormatError if the folder of states holds another training, and MisuseError if
    the options ask to end one and it holds none.
    """
    state = TrainingState.begin(network, _optimizer(network, course, options))
    folder = options.state if course.until is None else None
    if folder is not None and state.load(folder, fingerprint):
        progress(f"resuming after epoch {state.epoch} of {options.epochs}")
    if options.end_now and course.until is None:
        if not state.epoch:
            raise MisuseError(f"{folder} holds no unfinished training to end; leave out --end-now")
        return state
    save = None if folder is None else partial(state.save, folder, fingerprint)
    threads = torch.get_num_threads()
    torch.set_num_threads(options.threads)
    try:
        with no_launcher(), StopRequest(STOPPING, options.state is not None) as stop:
            training = Training(state, course, options, stop, save, progress,
                                time.monotonic() if began is None else began)
            if training.goes_on:
                EpochTrainer(training).train()
            if stop.asked:
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        if not state.epoch:
            raise
        state.interrupted = True
    finally:
        torch.set_num_threads(threads)
    return state


def _optimizer(network: nn.Module, course: Course[Any, Any], options: TrainingOptions) -> torch.optim.AdamW:
    matrices = [tensor for tensor in network.parameters() if tensor.dim() > 1]
    vectors = [tensor for tensor in network.parameters() if tensor.dim() <= 1]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": WEIGHT_DECAY},
                              {"params": vectors, "weight_decay": 0.0}], lr=options.rate,
                             betas=(0.9, course.second_decay), fused=course.fused)


def schedule(done: float, warm_up: float) -> float:
    """The learning rate relative to its peak after the share `done` of the steps.

    It rises linearly to 1 during the share `warm_up`, then falls along a cosine to 0.02.
    """
    if done < warm_up:
        return (done + 1e-3) / (warm_up + 1e-3)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (done - warm_up) / (1 - warm_up)))
