"""The verbs `train` and `retrain`: models from measurements, or from another tuner's choices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.data.provenance import check_measured
from seqtune.kernels.devices.accelerators import BACKENDS
from seqtune.kernels.say import silent
from seqtune.predictor.learning.kinds import TrainingRequest, learner, learning_of
from seqtune.predictor.predictors import cached_checkpoint
from seqtune.predictor.training.conditions import check_can_train
from seqtune.tuner.stop_request import interrupted_by_sigterm

from ..errors import InterruptedTraining, MisuseError, SeqtuneError, warned
from .inputs import check_free, deadline_in
from .results import Written

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.recipe import Recipe
    from seqtune.predictor.training.progress import Progress
    from seqtune.predictor.training.unfinished import UnfinishedTraining


def train(data: str | Path | None, out: str | Path, *, recipe: str | Path | None = None, epochs: int | None = None,
          extra: int | None = None, seed: int = 0, refit: bool = False, state: str | Path | None = None,
          end_now: bool = False, force: bool = False, progress: Progress = silent) -> Written:
    """Train a model on a data set (None: the shipped one) and save it as a checkpoint.

    `data` is a Parquet file or a folder of them, held in memory. The kind of model follows from the data set.
    `extra` is the number of further problems that boosted trees label. `recipe` is a file, or the name of a shipped
    checkpoint, that gives all options instead of `epochs`, `extra`, `seed` and `refit`, and the data set unless it
    needs `data`. `state` is a folder that keeps an unfinished training (None: OUT.training until the checkpoint is
    written); the same call resumes it, and with `end_now` writes the checkpoint of what it has learned.
    `progress` receives a line for each step, and an Epoch after every epoch (after some, if there are few problems). Of
    your data, all training problems are learned from, and held-out problems near one are not used for evaluation
    (`not_evaluated`); of the shipped data, no training problem near a held-out one is learned from. With few problems,
    the report has a cross-validation. `force` overwrites a checkpoint, and trains on times that look like noise.
    Raises MisuseError for wrong arguments, for data that no model learns from and under torchrun, MissingPackageError
    without PyTorch or transformers, InterruptedTraining on Ctrl-C or SIGTERM.
    """
    check_can_train()
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.predictor.training.unfinished import UnfinishedTraining

    check_free(Path(out), force, checkpoint=True)
    data, request = _requested(data, recipe, TrainingRequest(
        epochs, extra, refit, end_now=end_now, seed=seed, force=force))
    unfinished = UnfinishedTraining.of(Path(out), None if state is None else Path(state),
                                       command_of(data, epochs, extra, request.seed, refit, request.recipe))
    dataset = read_dataset(data)
    _check_records(dataset, data)
    learning = learner(dataset)
    unfinished.begin(end_now)
    if end_now:
        progress("no further epoch: only what the checkpoint needs beside them is computed, such as trees")
    with _resumable(unfinished, end_now):
        model, report = learning.train(dataset, replace(request, state=unfinished.folder), progress)
        written = Written(model.save(out), report)
    unfinished.end()
    return written


def _requested(data: str | Path | None, recipe: str | Path | None,
               request: TrainingRequest) -> tuple[str | Path | None, TrainingRequest]:
    """The data set and the request of a training, from the recipe if there is one. Raises MisuseError."""
    from seqtune.data.formats.dataset_file import is_shipped

    if recipe is not None:
        from seqtune.predictor.learning.recipe import Recipe

        if (request.epochs, request.extra_problems, request.seed, request.refit) != (None, None, 0, False):
            raise MisuseError("a recipe gives the data set and all options: leave out the others")
        read = Recipe.read(recipe)
        data, request = read.data_set(data), replace(request, seed=read.options.seed, recipe=read)
    return data, replace(request, protect_held_out=is_shipped(data))


def _check_records(dataset: Dataset, data: str | Path | None) -> None:
    """Check that the records of a data set were measured, and warn of those of earlier versions. Raises MisuseError."""
    check_measured(dataset.provenance, data)
    for note in dataset.outdated():
        warned(note)


@contextmanager
def _resumable(unfinished: UnfinishedTraining, end_now: bool) -> Iterator[None]:
    """A context whose interruption says how the same command goes on. A training that is refused leaves nothing."""
    try:
        with interrupted_by_sigterm():
            yield
    except KeyboardInterrupt:
        raise InterruptedTraining(unfinished.stopped(end_now)) from None
    except MisuseError:
        unfinished.give_up()
        raise


def command_of(data: str | Path | None, epochs: int | None = None, extra: int | None = None, seed: int = 0,
               refit: bool = False, recipe: Recipe | None = None) -> dict[str, Any]:
    """The arguments that a training depends on, by name: an unfinished one goes on where all are as before."""
    from seqtune.data.formats.dataset_file import is_shipped

    if recipe is not None:
        from seqtune.predictor.training.state import describe

        return {"data": command_of(data)["data"], "recipe": describe(recipe.options)}
    return {"data": "shipped" if is_shipped(data) else str(Path(str(data)).absolute()), "epochs": epochs,
            "extra": extra, "seed": seed, "refit": refit}


def retrain(checkpoint: str | Path, data: str | Path, out: str | Path, *, rehearse: str | Path | None = None,
            epochs: int | None = None, extra: int | None = None, seed: int = 0, scratch: bool = False,
            force: bool = False, progress: Progress = silent, minutes: float | None = None) -> Written:
    """Adapt a checkpoint to new records, and save the result as another checkpoint; other devices keep their answers.

    `rehearse` is a data set of the old records (None: the shipped ones, of GPUs if it is a checkpoint for GPUs, or
    nothing if the checkpoint knows none of their kernels). `minutes` (None: the kind of model decides) limits the whole
    call: where the time is short, fewer old records are rehearsed, and trees and training stop with what they have
    learned. The report compares before and after on the held-out problems of the new records and, with `scratch`, a
    model trained on these alone, which takes its own time.
    Old records are evaluated only for devices whose answers can change. All training problems of the new records are
    learned from; a held-out problem near one is not used for evaluation (`not_evaluated`). `progress` receives a line
    for each step, and an Epoch after every epoch. Ctrl-C and SIGTERM end the training: the checkpoint of the complete
    epochs is written, and the report says `interrupted`.
    Raises MisuseError, MissingPackageError without PyTorch or transformers, SeqtuneError if the time ends before the
    training, and InterruptedTraining on Ctrl-C or SIGTERM before the first epoch is complete, when nothing is learned.
    """
    check_can_train()
    check_free(Path(out), force, checkpoint=True)
    request = TrainingRequest(epochs, extra, seed=seed, deadline=None if minutes is None else deadline_in(minutes))
    try:
        with interrupted_by_sigterm():
            model, new, old = _records(checkpoint, data, rehearse)
            if request.deadline is not None and request.deadline.is_over:
                raise SeqtuneError(f"reading the data took longer than {minutes:g} minutes; give more (--minutes)")
            progress(f"{len(new):,} new records, {len(old):,} old ones")
            adapted, report = learning_of(model).retrain(model, new, old, request, scratch, progress)
    except KeyboardInterrupt:
        raise InterruptedTraining("stopped before the end of the first epoch, so nothing is kept") from None
    return Written(adapted.save(out), report)


def _records(checkpoint: str | Path, data: str | Path,
             rehearse: str | Path | None) -> tuple[Checkpoint, Dataset, Dataset]:
    """The checkpoint, the new records and the old ones, from which its kind learns. Raises SeqtuneErrors."""
    from seqtune.data.formats.dataset_file import read_dataset

    new = read_dataset(data)
    _check_records(new, data)
    model = cached_checkpoint(checkpoint)
    old = _shipped_records(model, new) if rehearse is None else read_dataset(rehearse)
    check_measured(old.provenance, rehearse)
    check_learns(model, new, checkpoint, data)
    check_learns(model, old, checkpoint, rehearse)
    return model, new, old


def _shipped_records(model: Checkpoint, new: Dataset) -> Dataset:
    """The shipped records of the backends that a model speaks for; none if it knows no kernel of their libraries."""
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.data.shipped_machines import GPUS

    records = read_dataset(None if set(BACKENDS).isdisjoint(model.backends) else GPUS)
    if {str(kernel).partition(".")[0] for kernel in records.rows["kernel"].unique()}.isdisjoint(model.libraries):
        return replace(new, rows=new.rows[:0], devices={}, held_out=frozenset())
    return records


def check_learns(model: Checkpoint, dataset: Dataset, checkpoint: str | Path | None, data: object) -> None:
    """Check that the kind of a model learns from data like these. Raises MisuseError."""
    if not learning_of(model).learns_from(dataset):
        raise MisuseError(f"the checkpoint {checkpoint} does not fit {data or 'the shipped data'}: "
                          "times and choices, or MIOpen's labels, need models of their own")
