"""The verb `evaluate`: compares a checkpoint with other methods on problems that the checkpoint did not learn from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import problem_set
from seqtune.kernels.say import Say, silent
from seqtune.predictor.learning.kinds import EvaluationRequest, learning_of, shipped_learner
from seqtune.predictor.predictors import UNTRAINED, cached_checkpoint

from ..errors import DeviceError, MisuseError, warned
from .inputs import as_device, as_problems
from .learning import check_learns
from .results import Evaluation

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset


def evaluate(data: str | Path | Sequence[str | Path] | None = None, *, form: str | None = None,
             checkpoint: str | Path | None = None, methods: str | Sequence[str] | None = None, live: bool = False,
             problems: object = None, device: Device | str | None = None, progress: Say = silent,
             note: Say = warned) -> Evaluation:
    """Compare a checkpoint with other methods on problems that it did not learn from.

    `data` is a data set (None: the shipped ones) or, with `form` (a name in the table of formats), files of that
    format. Only `device` is evaluated (None: all); with `form` it adds facts that the files lack. `checkpoint` is a
    folder or a name (None: the shipped one for such data). With `live`, the proposals for `problems` (a named set, a
    file, or several problems) are measured now on `device`. `methods` is an option of `EvaluationRequest`. `note`
    receives what the user should notice. Raises MisuseError, DeviceError.
    """
    from seqtune.data.formats.dataset_file import is_shipped

    if live and (problems is None or device is None):
        raise MisuseError("live evaluation needs problems and a device (--problems FILE --device D)")
    if not live and problems is not None:
        raise MisuseError("problems are for a live evaluation (--live)")
    if isinstance(checkpoint, str) and checkpoint in UNTRAINED:
        raise MisuseError(f"{checkpoint} is no trained checkpoint; an evaluation compares one with the methods "
                          "`default` and, on GPUs, `analytic` (--methods)")
    dataset = _evaluated_data(data, form, None if live else device, note)
    model = cached_checkpoint(shipped_learner(dataset) if checkpoint is None else checkpoint)
    check_learns(model, dataset, checkpoint, data)
    request = EvaluationRequest(
        methods=(methods,) if isinstance(methods, str) else None if methods is None else tuple(methods),
        queries=_queries(problems, device) if live and device is not None else None,
        protect_held_out=form is None and is_shipped(data))
    return Evaluation(tuple(learning_of(model).evaluate(model, dataset, request, progress, note)))


def _evaluated_data(data: str | Path | Sequence[str | Path] | None, form: str | None, device: Device | str | None,
                    note: Say) -> Dataset:
    """The data set of an evaluation, with the held-out problems of one device only (None: of all)."""
    from seqtune.data.formats.dataset_file import read_dataset
    from seqtune.data.formats.table import find_files, format_of

    if form is not None:
        paths = [] if data is None else [data] if isinstance(data, str | Path) else data
        chosen = format_of(form, "read")
        assert chosen.read is not None
        content = chosen.read(find_files(form, paths), [] if device is None else [device])
        for line in content.notes:
            note(line)
        return content.data
    if data is not None and not isinstance(data, str | Path):
        raise MisuseError("one data set is evaluated at a time")
    return _only_device(read_dataset(data), device.name if isinstance(device, Device) else device)


def _queries(problems: object, device: Device | str) -> tuple[tuple[Problem, Device], ...]:
    chosen = problem_set(problems) if isinstance(problems, str | Path) else as_problems(problems)
    target = as_device(device)
    return tuple((problem, target) for problem in chosen)


def read_measurements(data: str | Path | None) -> Dataset:
    """Read a data set of measurements. Raises MisuseError where it holds another tuner's choices instead."""
    from seqtune.data.formats.dataset_file import read_dataset

    dataset = read_dataset(data)
    if dataset.holds_labels:
        raise MisuseError(f"{data} holds MIOpen's labels, not measurements to search among; "
                          "`seqtune train` learns from labels, and `seqtune evaluate` evaluates on them")
    return dataset


def _only_device(data: Dataset, device: str | None) -> Dataset:
    """Keep the held-out rows of one device only (None: of all), and all training rows."""
    if device is None:
        return data
    keys = data.named(device) or data.named(as_device(device).name)  # llvm:0 means a device of this machine
    if not keys:
        names = ", ".join(sorted({known.name for known in data.devices.values()}))
        raise DeviceError(f"the data set has no device {device!r:.60}; it has {names}")
    return replace(data, rows=data.rows[data.rows["device"].isin(keys) | ~data.rows["problem"].isin(data.held_out)])
