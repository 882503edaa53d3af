"""Learning from measurements: export, train, retrain and evaluate, wired from the floors below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import problem_set
from seqtune.kernels.problem_sets.similarity import near
from seqtune.kernels.space import spaces_for

from .errors import DeviceError, MisuseError
from .inputs import Say, as_device, as_problems, check_free, load_translator, one_thread, silent, warned
from .label_learning import holds_labels, train_labels

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.times.training_options import TrainingOptions
    from seqtune.predictor.training.loop import Progress as TrainingProgress


def _judging(data: Dataset, device: str | None) -> Dataset:
    """Held-out rows of that device alone (None: all), and all others: the methods learn from no less than without."""
    if device is None:
        return data
    keys = data.named(device) or data.named(as_device(device).name)  # a number means a device of this machine
    if not keys:
        names = ", ".join(sorted({one.name for one in data.devices.values()}))
        raise DeviceError(f"the data set has no device {device!r:.60}; it has {names}")
    return replace(data, rows=data.rows[data.rows["device"].isin(keys) | ~data.rows["problem"].isin(data.held_out)])


def read_measurements(data: str | Path | None) -> Dataset:
    """The data set as `read_dataset` finds it. Raises MisuseError where it holds a foreign tuner's choices, which no
    measurement proves.
    """
    from seqtune.data.formats.dataset_file import read_dataset

    found = read_dataset(data)
    if holds_labels(found):
        raise MisuseError(f"{data} holds MIOpen's labels: `seqtune train` learns from them, and `seqtune evaluate "
                          "miopen --data PATH` judges, PATH being MIOpen's own files")
    return found


def train(data: str | Path | None, out: str | Path, *, epochs: int | None = None, extra: int | None = None,
          seed: int = 0, refit: bool = False, state: str | Path | None = None, force: bool = False,
          progress: Callable[[Any], None] | None = None, say: Say = silent) -> dict[str, Any]:
    """Train a translator on a data set (None: the shipped one) and save it as a checkpoint; returns a report.

    `extra` is how many more problems the teacher labels; `state` names a folder that keeps an unfinished training, to
    be resumed by the same call. `progress` is told after every epoch; `say`, on labels, what else is being done.
    """
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.predictor.times.training import train
    from seqtune.predictor.times.training_options import TrainingOptions

    check_free(Path(out), force, checkpoint=True)
    if state is not None and (not Path(state).parent.is_dir() or (Path(state).exists() and not Path(state).is_dir())):
        raise MisuseError(f"{state} is no folder, and none can be made there")
    found = read_dataset(data)
    if holds_labels(found):
        return _train_labels(found, out, epochs, seed, refit, state, progress, say)
    options = TrainingOptions(seed=seed, refit=refit, state=None if state is None else Path(state))
    options = _changed(options, epochs, extra)
    checkpoint, report = train(found, options, progress)
    checkpoint.save(out)
    return {"out": str(out), **report}


def _train_labels(data: Dataset, out: str | Path, epochs: int | None, seed: int, refit: bool,
                  state: str | Path | None, progress: Callable[[Any], None] | None, say: Say) -> dict[str, Any]:
    """`refit` here: learn from the held-out problems, too."""
    from seqtune.predictor.labels.label_options import LabelOptions

    options = LabelOptions(seed=seed, state=None if state is None else Path(state))
    return train_labels(data, out, options if epochs is None else replace(options, epochs=epochs), everything=refit,
                        progress=progress, say=say)


def retrain(checkpoint: str | Path, data: str | Path, out: str | Path, *, rehearse: str | Path | None = None,
            epochs: int | None = None, extra: int | None = None, seed: int = 0, scratch: bool = True,
            force: bool = False, progress: Callable[[TrainingProgress], None] | None = None) -> dict[str, Any]:
    """Adapt a checkpoint to new records without forgetting the old ones, and save the result as another checkpoint.

    `rehearse` is a data set of the old records (None: the shipped ones). The report compares before and after on the
    held-out problems of both, beside a training from scratch on the new records alone (unless `scratch` is False).
    """
    from seqtune.predictor.times.retraining import RETRAINING, retrain

    check_free(Path(out), force, checkpoint=True)
    new, old = read_measurements(data), read_measurements(rehearse)
    loaded = load_translator(checkpoint)
    options = _changed(replace(RETRAINING, seed=seed), epochs, extra)
    found, report = retrain(loaded, new, old, options, progress, scratch)
    found.save(out)
    return {"out": str(out), **report}


def _changed(options: TrainingOptions, epochs: int | None, extra: int | None) -> TrainingOptions:
    return replace(options, epochs=options.epochs if epochs is None else epochs,
                   extra=options.extra if extra is None else extra)


def evaluate(data: str | Path | None = None, *, checkpoint: str | Path = "default",
             methods: str | Sequence[str] | None = None, live: bool = False, problems: object = None,
             device: Device | str | None = None, progress: Say = silent,
             warn: Say = warned) -> list[dict[str, Any]]:
    """Rows of device, method, measured, share, problems: how near to the best known time each method gets.

    From a data set's held-out problems (None: the shipped ones); with `live`, what the methods propose for `problems`
    (a named set, a file, or several problems) is measured on the spot on `device`, and `trained_on` says how many of
    them the data set trains on, or on near twins of theirs. What should not be missed is told to `warn`, too.
    """
    from seqtune.predictor.times.evaluation import METHODS, check_methods, evaluate
    from seqtune.predictor.times.live import LiveMeasure

    if live and (problems is None or device is None):
        raise MisuseError("live evaluation needs problems and a device (--problems FILE --device D)")
    if not live and problems is not None:
        raise MisuseError("problems are for a live evaluation (--live)")
    chosen = METHODS if methods is None else (methods,) if isinstance(methods, str) else tuple(methods)
    check_methods(chosen)
    source = read_measurements(data)
    loaded = load_translator(checkpoint) if "seq2seq" in chosen else None
    if not live:
        only = device.name if isinstance(device, Device) else device
        with one_thread():
            return [row.to_json() for row in evaluate(_judging(source, only), loaded, chosen, progress=progress)]
    assert device is not None
    asked = problem_set(problems) if isinstance(problems, str | Path) else as_problems(problems)
    place = as_device(device)
    for problem in asked:
        spaces_for(problem, place)
    seen = _trained_on(source, asked)
    if seen:
        warn(f"{len(seen)} of {len(set(asked))} problems are, or nearly are, training problems of the data set: the "
             "baselines have learned from them, and so has a checkpoint that was trained on it")

    def skip(problem: Problem, reason: str) -> None:
        seen.discard(problem)
        warn(f"left out: {reason}")

    with one_thread(), LiveMeasure(place, progress) as measure:
        found = evaluate(source, loaded, chosen, measure=measure, questions=[(problem, place) for problem in asked],
                         on_skip=skip, progress=progress)
    return [{**row.to_json(), "trained_on": len(seen)} for row in found]


def _trained_on(data: Dataset, asked: Sequence[Problem]) -> set[Problem]:
    """Which of these the data set trains on, or on near twins of theirs."""
    training = [problem for problem in data.problems() if problem.key not in data.held_out]
    return {problem for problem in asked if any(near(problem, other) for other in training)}
