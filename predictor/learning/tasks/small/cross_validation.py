"""CrossValidation: how good a checkpoint of few problems will be, from the same training without a fold of them.

Each fold trains a model in the same way on the other problems, and its answers to the fold's problems are compared
with those of simple methods: the trees alone, the nearest problem's best configurations, the best ones on average, the
safe default and random ones. A finished fold is kept in the training's folder of states, so that a resumed training
does not repeat it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, SeqtuneError, json_fault
from seqtune.kernels.files import read_bounded, write_whole
from seqtune.kernels.say import Say, silent
from seqtune.kernels.task import MeasuredTask

from ....training.options import TrainingOptions
from ....training.state import OUTSIDE, describe
from ....training.unfinished import CROSS_VALIDATION
from ..evaluation import fitted, replayed
from ..shares import OURS, EvaluationRow, Outcome, rows
from ..training import train_model
from .folds import Fold

METHODS = (OURS, "trees", "nearest", "fixed", "random", "default")
COUNTS = (0, 5)  # the first proposal without measuring, and the best of five measured ones
LARGEST_FILE = 50_000_000  # bytes


@dataclass(frozen=True, slots=True)
class CrossValidation:
    """The outcomes on the problems of the folds that were finished."""

    outcomes: Sequence[Outcome]
    folds: int  # finished
    planned: int
    near: bool  # whether some fitted problems were near held-out ones, since there were too few others

    def rows(self) -> list[EvaluationRow]:
        """A row for every device, method and number of measured proposals."""
        return rows(self.outcomes)

    @property
    def description(self) -> str:
        """One sentence that says how the figures came about."""
        part = "" if self.folds == self.planned else f" ({self.folds} finished)"
        near = ("; fitted problems are near held-out ones, so the figures are for problems like these" if self.near
                else ", and no problem near it")
        return (f"each problem is answered by a model that was trained without it{near}: {self.planned} folds{part}, "
                f"{len({outcome.problem for outcome in self.outcomes})} problems")

    def to_json(self) -> dict[str, Any]:
        """The report of a training: a sentence and a small table."""
        return {"how": self.description, "folds": self.folds, "shares": [
            {"device": row.device, "method": row.method, "measured": row.measured, "share": row.share,
             "share_low": row.share_low, "share_high": row.share_high, "low": row.low, "high": row.high}
            for row in self.rows()]}


def cross_validate(folds: Sequence[Fold], options: TrainingOptions, progress: Say = silent,
                   methods: Sequence[str] = METHODS, counts: Sequence[int] = COUNTS) -> CrossValidation | None:
    """Train and evaluate in every fold; None if none is finished.

    Ctrl-C ends it with the folds that are finished, or raises KeyboardInterrupt where the options name a folder of
    states. Options that end the training now take the finished folds of that folder.
    """
    fingerprint = _fingerprint(folds, options, methods, counts)
    finished = _finished(options.state, fingerprint)[:len(folds)]
    try:
        began, first = time.monotonic(), len(finished)
        for number in range(first, len(folds) if not options.end_now else 0):
            left = (time.monotonic() - began) / max(1, number - first) * (len(folds) - number)
            progress(f"cross-validation: fold {number + 1} of {len(folds)}"
                     f"{f', about {left:.0f} s left' * (number > first)}")
            finished.append(_outcomes(folds[number], options, methods, counts))
            if options.state is not None:
                _write(options.state, fingerprint, finished)
    except KeyboardInterrupt:
        progress(f"cross-validation: interrupted after {len(finished)} of {len(folds)} folds")
        if options.state is not None:
            raise
    if not finished:
        return None
    return CrossValidation([outcome for fold in finished for outcome in fold], len(finished), len(folds),
                           any(fold.near for fold in folds))


def _outcomes(fold: Fold, options: TrainingOptions, methods: Sequence[str], counts: Sequence[int]) -> list[Outcome]:
    checkpoint, report = train_model(fold.fitting, [], replace(options, confidence=False, state=None))
    if report["interrupted"]:
        raise KeyboardInterrupt
    known = [measured for measured in fold.held_out if not checkpoint.vocabulary.differences(measured.task.kernels)]
    return replayed(known, fitted(fold.fitting, checkpoint, methods, options=options.trees), methods, counts)


def _fingerprint(folds: Sequence[Fold], options: TrainingOptions, methods: Sequence[str],
                 counts: Sequence[int]) -> str:
    """A digest of all that determines the outcomes."""
    settings = {name: value for name, value in describe(options).items()
                if name not in (*OUTSIDE, "confidence")}
    digest = hashlib.sha256(repr(("outcomes", settings, list(methods), list(counts))).encode())
    for fold in folds:
        for part in (fold.fitting, fold.held_out):
            digest.update(b"part")
            for measured in part:
                digest.update(_identity(measured))
    return digest.hexdigest()


def _identity(measured: MeasuredTask) -> bytes:
    kernels = ",".join(f"{kernel.name} {kernel.version}" for kernel in measured.task.kernels)
    return f"{measured.problem.key}|{measured.device.key}|{kernels}|".encode() + measured.seconds.tobytes()


def _write(folder: Path, fingerprint: str, finished: Sequence[Sequence[Outcome]]) -> None:
    content = {"fingerprint": fingerprint, "folds": [[outcome.to_json() for outcome in fold] for fold in finished]}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SeqtuneError(f"cannot write into {folder}: {error.strerror}") from None
    write_whole(folder / CROSS_VALIDATION, json.dumps(content))


def _finished(folder: Path | None, fingerprint: str) -> list[list[Outcome]]:
    """The finished folds that a folder of states keeps; none if they are of another training. Raises FormatError."""
    if folder is None or not (folder / CROSS_VALIDATION).is_file():
        return []
    path = folder / CROSS_VALIDATION
    try:
        content = json.loads(read_bounded(path, LARGEST_FILE))
        if content["fingerprint"] != fingerprint:
            return []
        return [[Outcome.from_json(outcome) for outcome in fold] for fold in content["folds"]]
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not JSON: {json_fault(error)}; remove it") from None
    except (KeyError, TypeError) as error:
        raise FormatError(f"{path} does not hold a cross-validation ({error!r:.60}); remove it") from None
