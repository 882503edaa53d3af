"""Scores of a predictor: how often it predicts the configuration that a tuner chose, how good its solvers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from seqtune.data.labels import Labels, SolverTimings
from seqtune.kernels.miopen.solver import PREFIX

from .predictors import LabelPredictions, LabelPredictor, allowed_values, valid

TOP = 5  # proposals that are scored

Entries = np.ndarray[tuple[int], np.dtype[np.int64]]  # numbers of entries in the timings
Counts = NDArray[np.int64]  # (label, parameter)


@dataclass(frozen=True, slots=True)
class Score:
    """How well a predictor predicts labels: shares from 0 to 1 of labels or of their parameters."""

    n: int  # labels
    exact: float  # share of labels that are the first proposal
    exact_top5: float  # share of labels that are among the first five proposals
    per_parameter: float  # share of parameters that are right in the first proposal
    teacher_forced: float | None  # share of parameters that are right after the true values before them, among those
                                  # with a choice; None without any, or if the predictor does not work value by value
    invalid: int  # proposals that are outside of the search space

    @classmethod
    def of(cls, labels: Labels, predictions: LabelPredictions, allowed: Counts | None = None) -> Score:
        """Score the predictions for at least one label.

        `allowed` is what `allowed_values` returns for the labels; None: it is computed here. A value that the
        look-ahead leaves no choice for is not counted as a parameter that was predicted.
        """
        wanted = labels.value_indices[:, None, :]
        proposed = predictions.proposed
        same = np.asarray((proposed == wanted) & (wanted >= 0))
        whole = np.asarray(same.all(axis=2))
        present = np.asarray((proposed >= 0).all(axis=2))
        invalid = sum(int((present[:, rank] & ~valid(labels.kernel, labels.queries, proposed[:, rank])).sum())
                      for rank in range(present.shape[1]))
        teacher_forced = None
        if predictions.correct is not None:
            free = (allowed_values(labels) if allowed is None else allowed) != 1
            teacher_forced = float(predictions.correct[free].mean()) if free.any() else None
        return cls(len(labels), float(whole[:, 0].mean()), float(whole[:, :TOP].any(axis=1).mean()),
                   float(same[:, 0].mean()), teacher_forced, invalid)


@dataclass(frozen=True, slots=True)
class LabelRow:
    """The scores on the labels of one device and solver."""

    device: str
    solver: str
    score: Score
    parts: Mapping[str, Score] = field(default_factory=dict)  # by feature and value: `direction=...`, `dtype=...`

    def to_json(self) -> dict[str, object]:
        """A JSON object with the device, the solver and the fields of the score."""
        result: dict[str, object] = {"device": self.device, "solver": self.solver, **asdict(self.score)}
        if self.parts:
            result["parts"] = {name: asdict(score) for name, score in self.parts.items()}
        return result


def score_labels(predictor: LabelPredictor, labels: Mapping[str, Labels], by: tuple[str, ...] = (),
          progress: Callable[[str], None] = lambda step: None) -> list[LabelRow]:
    """Score a predictor: a row per device and solver. `by` names features of problems (direction, dtype); each of their
    values gets a part in the row."""
    rows = []
    for name, kernel_labels in labels.items():
        for number, device in enumerate(kernel_labels.queries.devices):
            chosen = kernel_labels.take(np.flatnonzero(kernel_labels.queries.device == number))
            if not len(chosen):
                continue
            progress(f"scoring {len(chosen)} labels of {name.removeprefix(PREFIX)} on {device.name}")
            predictions, allowed = predictor.predict(chosen, TOP), allowed_values(chosen)
            rows.append(LabelRow(
                device.name, name.removeprefix(PREFIX), Score.of(chosen, predictions, allowed),
                {part: score for feature in by for part, score in _parts(chosen, predictions, allowed, feature)}))
    return rows


def _parts(labels: Labels, predictions: LabelPredictions, allowed: Counts,
           feature: str) -> list[tuple[str, Score]]:
    values = labels.queries.problems.columns.values[feature][labels.queries.problem]
    parts = []
    for value in np.unique(values):
        rows = np.flatnonzero(values == value)
        part = LabelPredictions(predictions.proposed[rows],
                                None if predictions.correct is None else predictions.correct[rows])
        parts.append((f"{feature}={value}", Score.of(labels.take(rows), part, allowed[rows])))
    return parts


@dataclass(frozen=True, slots=True)
class SolverChoiceRow:
    """The scores of the solver choice on one device.

    The share of a problem is the time of its fastest solver divided by the time of the chosen one; the shares here are
    geometric means over problems.
    """

    device: str
    n: int  # problems
    top1: float  # share of problems whose fastest solver was chosen
    share: float
    default_share: float  # share of always choosing the solver that is fastest most often, among those that apply

    def to_json(self) -> dict[str, object]:
        """A flat JSON object."""
        return asdict(self)


def solver_choice_rows(timings: SolverTimings, chosen: Entries) -> list[SolverChoiceRow]:
    """Score the choice of solvers: a row per device. `chosen[i]` is the chosen entry of the timings of query i."""
    best = np.minimum.reduceat(timings.seconds, timings.starts[:-1])
    owner = np.repeat(np.arange(len(timings)), np.diff(timings.starts))
    fastest = timings.seconds <= best[owner]
    rows = []
    for number, device in enumerate(timings.queries.devices):
        queries = np.flatnonzero(timings.queries.device == number)
        if not len(queries):
            continue
        wins = np.bincount(timings.solver[fastest & (timings.queries.device[owner] == number)],
                           minlength=len(timings.names)).astype(float)
        most_frequent = first_best(timings, wins[timings.solver])

        def share(entries: Entries, queries: Entries = queries) -> float:
            return float(np.exp(np.log(best[queries] / timings.seconds[entries[queries]]).mean()))

        rows.append(SolverChoiceRow(device.name, len(queries), float(fastest[chosen[queries]].mean()), share(chosen),
                                    share(most_frequent)))
    return rows


def first_best(timings: SolverTimings, scores: np.ndarray[tuple[int], np.dtype[np.floating]]) -> Entries:
    """The entry with the highest score of each query's timings, the first among equals: (query,)."""
    lengths = np.diff(timings.starts)
    top = np.repeat(np.maximum.reduceat(scores, timings.starts[:-1]), lengths)
    entries = np.flatnonzero(scores >= top)
    owner = np.repeat(np.arange(len(timings)), lengths)[entries]
    return entries[np.unique(owner, return_index=True)[1]]
