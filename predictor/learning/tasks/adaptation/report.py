"""RetrainingReport: what a retraining learned from, what it changed on held-out problems, and notes on both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from seqtune.kernels.problem_sets.leakage import abridged, leakage_note

from ..shares import DRAWS, OURS, Outcome, bootstrap

SEED = 0  # of the bootstrap: the same outcomes give the same intervals
FEWEST = 5  # problems of an interval; a bootstrap of fewer sees hardly any different samples
NEW, OLD = "new", "old"  # the records whose held-out problems a row is about


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One device and number of measured proposals: the share of the best known speed before and after."""

    device: str
    records: str  # NEW or OLD
    measured: int  # 0: the first proposal without measuring; n: the best of n measured proposals
    problems: int  # held-out ones, on which the checkpoints are evaluated
    before: float | None  # geometric mean over the problems; None: the checkpoint lacked a kernel of the problems
    after: float
    difference: float | None  # after - before
    low: float | None  # its 95 % interval, by a paired bootstrap of the problems; None with fewer than FEWEST problems
    high: float | None
    scratch: float | None = None  # share of a model that was trained on the new records alone

    @property
    def falls(self) -> bool:
        """Whether the share falls by more than the choice of problems explains: the whole interval is below 0."""
        return self.high is not None and self.high < 0


def comparison_rows(records: str, before: Sequence[Outcome] | None, after: Sequence[Outcome],
                scratch: Sequence[Outcome] | None = None) -> tuple[ComparisonRow, ...]:
    """Compare the outcomes of the same problems before and after, by device and number of measured proposals."""
    rows: list[ComparisonRow] = []
    for device in dict.fromkeys(outcome.device for outcome in after):
        for count in sorted({count for outcome in after for _, count in outcome.log_shares}):
            own = _logs(after, device, count)
            earlier, alone = (None if part is None else _logs(part, device, count) for part in (before, scratch))
            share, was = _share(own), None if earlier is None else _share(earlier)
            low, high = ((None, None) if earlier is None or len(own) < FEWEST
                         else bootstrap(own, earlier, DRAWS, SEED))
            rows.append(ComparisonRow(device, records, count, len(own), was, share,
                                      None if was is None else share - was, low, high,
                                      None if alone is None else _share(alone)))
    return tuple(rows)


def _logs(outcomes: Sequence[Outcome], device: str, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The log shares on one device, (problem,)."""
    return np.array([outcome.log_shares[OURS, count] for outcome in outcomes if outcome.device == device])


def _share(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return math.exp(float(logs.mean()))


@dataclass(frozen=True, slots=True)
class RetrainingReport:
    """The result of a retraining. Devices are named by their labels, problems as a user writes them."""

    new_devices: tuple[str, ...]  # devices of the new records
    new_problems: int  # training problems of the new records that were learned from
    new_cases: int  # pairs of such a problem and a device
    old_cases: int  # pairs of the old records that were learned again
    left_out: tuple[str, ...]  # training problems of the new records without a usable measurement
    evaluated: tuple[ComparisonRow, ...]
    unevaluated: tuple[str, ...]  # devices of the new records without a held-out problem to evaluate on
    not_evaluated: Mapping[str, tuple[str, ...]]  # NEW and OLD: held-out problems near a new training problem
    unanswered: tuple[str, ...]  # held-out problems whose kernels no training problem has
    unchanged: tuple[str, ...]  # devices of the old records whose answers stay
    new_words: int  # that the vocabulary got
    epochs: int
    planned_epochs: int
    interrupted: bool
    out_of_time: bool  # whether the time ended the training before its last epoch
    seconds: float

    @property
    def notes(self) -> list[str]:
        """Sentences that the user should see: what was not learned, fell, cannot be evaluated, or was left out."""
        notes = _unevaluated(self.unevaluated, self.not_evaluated[NEW])
        if self.out_of_time:
            notes.append(f"{self.epochs or 'none'} of {self.planned_epochs} epochs fitted into the time"
                         + ("" if self.epochs else ", so the translator is what it was, and only the trees learned "
                            "the new records")
                         + "; more time (--minutes) lets it learn more")
        for row in self.evaluated:
            if row.falls:
                proposals = "first proposal" if row.measured == 0 else f"best of {row.measured}"
                notes.append(f"{row.device}: the {proposals} fell from {row.before:.3f} to {row.after:.3f} on "
                             f"{row.problems} held-out problems of the {row.records} records, which is more than "
                             f"chance: the 95 % interval of the change is {row.low:+.3f} to {row.high:+.3f}")
        few = {(row.device, row.problems) for row in self.evaluated if row.problems < FEWEST}
        notes += [f"{device}: only {problems} held-out problem{'s' * (problems > 1)}; an interval needs {FEWEST}"
                  for device, problems in sorted(few)]
        for records, problems in self.not_evaluated.items():
            if problems:
                notes.append(f"held-out problems of the {records} records: "
                             + leakage_note(problems, " of the new records"))
        if self.unanswered:
            notes.append(f"not evaluated: {abridged(self.unanswered)}, because no training problem has the kernels; "
                         "tune problems that they solve")
        if self.left_out:
            notes.append(f"not learned from: {abridged(self.left_out)} of the new records, because no measured "
                         "configuration of today's kernels and toolchain ran")
        return notes

    def to_json(self) -> dict[str, Any]:
        """A JSON object; `left_out` is the number of problems, `left_out_problems` has their names."""
        fields = asdict(self)
        return {**fields, "new_devices": list(self.new_devices), "unchanged": list(self.unchanged),
                "unevaluated": list(self.unevaluated), "unanswered": list(self.unanswered),
                "left_out": len(self.left_out), "left_out_problems": list(self.left_out),
                "evaluated": [{**asdict(row), "falls": row.falls} for row in self.evaluated],
                "not_evaluated": {records: list(problems) for records, problems in self.not_evaluated.items()},
                "remarks": self.notes}


def _unevaluated(devices: Sequence[str], near: Sequence[str]) -> list[str]:
    """The note on new devices without a held-out problem to evaluate on, if there are any."""
    if not devices:
        return []
    why = (f"all that was held out ({abridged(near)}) is near a training problem" if near else "nothing was held out")
    return [f"{', '.join(devices)}: {why}, so the report cannot say how good the new checkpoint is there; keep some "
            "problems back with `seqtune export --hold-out PROBLEMS`"]
