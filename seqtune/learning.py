"""Learning: train, retrain and evaluate models, wired from the floors below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.data.provenance import check_measured
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import problem_set
from seqtune.predictor.answering import named_predictor
from seqtune.predictor.model import (
    EvaluationRequest,
    TrainingRequest,
    answers_for,
    cached_model,
    learner,
    learning_of,
    shipped_learner,
)
from seqtune.predictor.say import Say, silent
from seqtune.tuner.measuring.deadline import CALIBRATION

from .errors import DeviceError, InterruptedTraining, MisuseError, SeqtuneError, check_installed, shown, warned
from .inputs import as_device, as_problems, check_free, check_positive
from .results import Evaluation, Written

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.model import Model

    from .calibration import Calibrated, OnTurn


def _only(data: Dataset, device: str | None) -> Dataset:
    """Keep the held-out rows of one device only (None: of all), and all training rows."""
    if device is None:
        return data
    keys = data.named(device) or data.named(as_device(device).name)  # llvm:0 means a device of this machine
    if not keys:
        names = ", ".join(sorted({known.name for known in data.devices.values()}))
        raise DeviceError(f"the data set has no device {device!r:.60}; it has {names}")
    return replace(data, rows=data.rows[data.rows["device"].isin(keys) | ~data.rows["problem"].isin(data.held_out)])


def read_measurements(data: str | Path | None) -> Dataset:
    """Read a data set of measurements. Raises MisuseError where it holds another tuner's choices instead."""
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.data.labels import holds_labels

    dataset = read_dataset(data)
    if holds_labels(dataset):
        raise MisuseError(f"{data} holds another tuner's choices (labels), not measurements to search among; "
                          "`seqtune train` learns from labels, and `seqtune evaluate` judges them")
    return dataset


def train(data: str | Path | None, out: str | Path, *, epochs: int | None = None, extra: int | None = None,
          seed: int = 0, refit: bool = False, state: str | Path | None = None, end_now: bool = False,
          force: bool = False, progress: Callable[[Any], None] | None = None, say: Say = silent) -> Written:
    """Train a model on a data set (None: the shipped one) and save it as a checkpoint.

    `data` is a Parquet file or a folder of them. Of a long data set, a sample is learned from that bounds the memory;
    the report then says how much (`sampling`). The kind of model follows from the data set. `extra` is the number of
    further problems that boosted trees label. `state` is a folder that keeps an unfinished training (None: OUT.training
    until the checkpoint is written, but nothing for several processes); the same call resumes it, and with `end_now`
    writes the checkpoint of what it has learned. `progress` is called after every epoch (after some, if there are few
    problems), `say` for other steps. Of your data, all training problems are learned from, and held-out problems near
    one judge no longer (`not_judged`); of the shipped data, none near a held-out one is. With few problems, the report
    has a cross-validation. `force` overwrites a checkpoint, and trains on times that look like noise. Under torchrun
    all processes share the work, and the first one saves the checkpoint. Raises MisuseError for wrong arguments and for
    data that no model learns from, MissingPackageError without PyTorch, InterruptedTraining on Ctrl-C or SIGTERM.
    """
    check_installed("train", "torch")
    from seqtune.data.formats.dataset_file import is_shipped, read_training_data
    from seqtune.predictor.training.process_group import is_alone, rank_here
    from seqtune.predictor.training.unfinished import UnfinishedTraining
    from seqtune.tuner.stop_request import interrupted_by_sigterm

    check_free(Path(out), force, checkpoint=True)
    unfinished = None
    if state is not None or is_alone():
        unfinished = UnfinishedTraining.of(Path(out), None if state is None else Path(state), {
            "data": "shipped" if is_shipped(data) else str(Path(str(data)).absolute()), "epochs": epochs,
            "extra": extra, "seed": seed, "refit": refit})
    elif end_now:
        raise MisuseError("several processes keep no state without --state, so there is no training to end")
    dataset, sampling = read_training_data(data, seed, say if rank_here() == 0 else silent)
    check_measured(dataset.provenance, data)
    request = TrainingRequest(epochs, extra, refit, None if unfinished is None else unfinished.folder, end_now, seed,
                              force=force, protect_held_out=is_shipped(data))
    learning = learner(dataset)
    if unfinished is not None and rank_here() == 0:
        unfinished.begin(end_now)
    try:
        with interrupted_by_sigterm():
            model, report = learning.train(dataset, request, progress, say)
            if sampling is not None:
                report["sampling"] = sampling.to_json()
            written = Written(model.save(out) if rank_here() == 0 else Path(out), report)
    except KeyboardInterrupt:
        if unfinished is None:
            raise
        raise InterruptedTraining(unfinished.stopped()) from None
    except MisuseError:
        if unfinished is not None:
            unfinished.give_up()
        raise
    if unfinished is not None:
        unfinished.end()
    return written


def retrain(checkpoint: str | Path, data: str | Path, out: str | Path, *, rehearse: str | Path | None = None,
            epochs: int | None = None, extra: int | None = None, seed: int = 0, scratch: bool = False,
            force: bool = False, progress: Callable[[Any], None] | None = None,
            minutes: float | None = None) -> Written:
    """Adapt a checkpoint to new records, and save the result as another checkpoint; other devices keep their answers.

    `rehearse` is a data set of the old records (None: the shipped ones, or nothing if the checkpoint knows none of
    their kernels). `minutes` (None: the kind of model decides) limits the whole call: where the time is short, fewer
    old records are rehearsed, and trees and training stop with what they have learned. The report compares before and
    after on the held-out problems of the new records and, with `scratch`, a model trained on these alone, which takes
    its own time.
    Old records are judged only for devices whose answers can change. All training problems of the new records are
    learned from; a held-out problem near one judges no longer (`not_judged`).
    Raises MisuseError, MissingPackageError without PyTorch, and SeqtuneError if the time ends before the training.
    """
    check_installed("train", "torch")
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.predictor.training.process_group import check_alone
    from seqtune.tuner.measuring.deadline import Deadline

    check_alone("a retraining takes minutes")
    check_free(Path(out), force, checkpoint=True)
    deadline = None
    if minutes is not None:
        check_positive("minutes", minutes)
        deadline = Deadline(60 * minutes)
    new = read_dataset(data)
    check_measured(new.provenance, data)
    model = cached_model(checkpoint)
    old = _without_rows(new) if rehearse is None and _is_foreign(model, new) else read_dataset(rehearse)
    check_measured(old.provenance, rehearse)
    _check_learns(model, new, checkpoint, data)
    _check_learns(model, old, checkpoint, rehearse)
    if deadline is not None and deadline.is_over:
        raise SeqtuneError(f"reading the data took longer than {minutes:g} minutes; give more (--minutes)")
    request = TrainingRequest(epochs, extra, seed=seed, deadline=deadline)
    adapted, report = learning_of(model.model_type).retrain(model, new, old, request, scratch, progress)
    return Written(adapted.save(out), report)


def _is_foreign(model: Model, data: Dataset) -> bool:
    """Return whether a model knows no kernel of the libraries whose records are shipped."""
    return not set(model.libraries) & set(cached_model(shipped_learner(data)).libraries)


def _without_rows(data: Dataset) -> Dataset:
    """The data set without its rows."""
    return replace(data, rows=data.rows[:0], devices={}, held_out=frozenset())


def calibrate(device: Device | str = "llvm:0", *, seconds: float = CALIBRATION, problems: object = None,
              checkpoint: str | Path | None = None, journal: str | Path | None = None, seed: int = 0,
              progress: OnTurn | None = None) -> Calibrated:
    """Measure probes on a device, chosen where the model is unsure; later predictions are corrected by them at once.

    `seconds` limits the whole call. `problems` are several problems or the name of a set (None: some of every kind).
    `checkpoint` is the model whose uncertainty chooses the probes (None: the shipped one for the device). Every probe
    is in the journal as soon as it is measured; the same call again continues. Raises MisuseError for wrong arguments,
    InterruptedTuning on Ctrl-C.
    """
    from seqtune.data.journal.journal import Journal
    from seqtune.kernels.problem_sets.probes import probes
    from seqtune.kernels.registry import can_run
    from seqtune.tuner.backends import discovery
    from seqtune.tuner.measuring.deadline import Deadline
    from seqtune.tuner.measuring.runner import Runner

    from . import calibration

    check_positive("seconds", seconds)
    deadline = Deadline(seconds)
    if seed < 0:
        raise MisuseError(f"seed={shown(seed)}; it must not be negative")
    target = as_device(device)
    name = answers_for(target.backend) if checkpoint is None else checkpoint
    predictor = named_predictor(name).on(target)
    if predictor.ranker is None or target.backend not in predictor.backends:
        raise MisuseError(f"the predictor {name} has no trees for {target.backend} devices that measurements could "
                          "correct; `seqtune tune` measures there")
    if not can_run(target.backend):
        raise MisuseError(f"kernels of {target.backend} cannot be run here, so there is nothing to measure")
    wanted = probes() if problems is None else as_problems(problems)
    discovery.check_present(target)
    with Journal(journal) as records, Runner(target) as runner:
        runner.start()
        count, fit = calibration.calibrate(wanted, target, predictor.ranker, records, runner, deadline, seed,
                                            progress or (lambda turn: None), predictor.expected)
        return calibration.Calibrated(
            target, records.path, count, fit.measurements, fit.problems, fit.before, fit.after)


def evaluate(data: str | Path | Sequence[str | Path] | None = None, *, form: str | None = None,
             checkpoint: str | Path | None = None, methods: str | Sequence[str] | None = None, live: bool = False,
             problems: object = None, device: Device | str | None = None, by_feature: bool = False,
             progress: Say = silent, warn: Say = warned) -> Evaluation:
    """Compare a checkpoint with other methods on problems that it did not learn from.

    `data` is a data set (None: the shipped ones) or, with `form` (a name in the table of formats), files of that
    format. Only `device` is judged (None: all); with `form` it adds facts that the files lack. `checkpoint` is a folder
    or a name (None: the shipped one for such data). With `live`, the proposals for `problems` (a named set, a file, or
    several problems) are measured now on `device`. `methods` and `by_feature` are options of `EvaluationRequest`.
    `warn` receives notes that the user should see. Raises MisuseError, DeviceError.
    """
    from seqtune.data.formats.dataset_file import is_shipped

    if live and (problems is None or device is None):
        raise MisuseError("live evaluation needs problems and a device (--problems FILE --device D)")
    if not live and problems is not None:
        raise MisuseError("problems are for a live evaluation (--live)")
    dataset = _judged(data, form, None if live else device, warn)
    model = cached_model(shipped_learner(dataset) if checkpoint is None else checkpoint)
    _check_learns(model, dataset, checkpoint, data)
    request = EvaluationRequest(
        methods=(methods,) if isinstance(methods, str) else None if methods is None else tuple(methods),
        queries=_queries(problems, device) if live and device is not None else None,
        by_feature=by_feature, protect_held_out=form is None and is_shipped(data))
    return Evaluation(tuple(learning_of(model.model_type).evaluate(model, dataset, request, progress, warn)))


def _judged(data: str | Path | Sequence[str | Path] | None, form: str | None, device: Device | str | None,
            warn: Say) -> Dataset:
    """The data set of an evaluation, with the held-out problems of one device only (None: of all)."""
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.data.formats.table import find_files, format_of

    if form is not None:
        paths = [] if data is None else [data] if isinstance(data, str | Path) else data
        chosen = format_of(form, "read")
        assert chosen.read is not None
        content = chosen.read(find_files(form, paths), [] if device is None else [device])
        for note in content.notes:
            warn(note)
        return content.data
    if data is not None and not isinstance(data, str | Path):
        raise MisuseError("one data set is evaluated at a time")
    return _only(read_dataset(data), device.name if isinstance(device, Device) else device)


def _queries(problems: object, device: Device | str) -> tuple[tuple[Problem, Device], ...]:
    chosen = problem_set(problems) if isinstance(problems, str | Path) else as_problems(problems)
    target = as_device(device)
    return tuple((problem, target) for problem in chosen)


def _check_learns(model: Model, dataset: Dataset, checkpoint: str | Path | None, data: object) -> None:
    if not learning_of(model.model_type).learns_from(dataset):
        raise MisuseError(f"the checkpoint {checkpoint} does not fit {data or 'the shipped data'}: "
                          "measured times and another tuner's choices need different kinds of models")
