"""Evaluation of a label checkpoint: how many choices of another tuner it tells, and how good its solvers are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from seqtune.data.dataset import Dataset
from seqtune.data.labels import Labels, Races, read_labels, read_races
from seqtune.errors import MisuseError

from ..networks.threads import one_thread
from ..say import Say, silent
from .baselines.table import fit_baselines
from .checkpoint import LabelCheckpoint
from .methods import Beam, Method
from .scores import LabelRow, RaceRow, judge, race_rows
from .solver_choice import Entries, TreeChoice, choose

BY = ("direction", "dtype")


def evaluate_labels(checkpoint: LabelCheckpoint, data: Dataset, *, baselines: bool = False, by_feature: bool = False,
                    progress: Say = silent, warn: Say = silent) -> list[LabelRow | RaceRow]:
    """Rows per device and solver of a data set's labels, then per device of its races.

    Only labels and races that the checkpoint did not learn from are judged. `baselines` are fitted on the rest, except
    what is held out; `by_feature` adds parts by direction and data type. Raises MisuseError where nothing is left.
    """
    labels, races = read_labels(data), read_races(data)
    kernels = checkpoint.kernels()
    judged = {name: _unlearned(every.spoken_by(kernels[name]), checkpoint)
              for name, every in labels.items() if name in kernels}
    judged = {name: part for name, part in judged.items() if len(part)}
    checkpoint.vocabulary.check(kernels[name] for name in judged)
    raced = None if races is None else races.take(np.flatnonzero(~checkpoint.learned.knows(races.hashes)))
    if not judged and (raced is None or not len(raced)):
        raise MisuseError("nothing to judge: the checkpoint has learned from every problem in these files")
    left = sum(map(len, labels.values())) - sum(map(len, judged.values()))
    if left:
        warn(f"{left} labels are not judged: the checkpoint has learned from their problems, or lacks their solvers")
    fitting, timed = training_part(
        {name: _learned_from(labels[name].spoken_by(kernels[name]), checkpoint).known() for name in judged},
        None if races is None else races.take(np.flatnonzero(checkpoint.learned.knows(races.hashes))))
    with one_thread():
        others = _baselines(judged, fitting, progress, warn) if baselines and judged else {}
        rows: list[LabelRow | RaceRow] = [
            *judge(Beam(checkpoint.next_word()), judged, others, BY if by_feature else (), progress)]
        if raced is not None and len(raced):
            progress("judging the choice of solvers")
            trees = _tree_choice(raced, timed, warn) if baselines else None
            rows += race_rows(raced, choose(checkpoint.model, checkpoint.vocabulary, raced), trees)
    return rows


def _baselines(judged: Mapping[str, Labels], fitting: Mapping[str, Labels], progress: Say,
               warn: Say) -> Mapping[str, Method]:
    lacking = ", ".join(name for name, part in judged.items() if len(fitting.get(name, ())) < len(part))
    if lacking:
        warn(f"no baselines: they learn from more labels than are judged; name perf-dbs with those of {lacking}")
        return {}
    return fit_baselines(fitting, progress)


def _tree_choice(raced: Races, timed: Races | None, warn: Say) -> Entries | None:
    """The entries that boosted trees choose; None where there are too few times to learn from."""
    if timed is None or len(timed) < len(raced):
        warn("no trees beside the choice of solvers: they learn from more times than are judged; name the find-dbs "
             "that hold them, too")
        return None
    return TreeChoice(timed).choose(raced)


def judged_rows(checkpoint: LabelCheckpoint, labels: Mapping[str, Labels], races: Races | None,
                say: Say = silent) -> list[dict[str, Any]]:
    """The rows on the held-out problems as JSON objects: per device and solver, then per device."""
    kernels = checkpoint.kernels()
    held_out = {name: one.spoken_by(kernels[name]).split()[1] for name, one in labels.items() if name in kernels}
    rows = [row.to_json() for row in judge(Beam(checkpoint.next_word()), held_out, progress=say)]
    if races is not None:
        raced = races.take(np.flatnonzero(races.questions.held_out))
        rows += [row.to_json() for row in race_rows(raced, choose(checkpoint.model, checkpoint.vocabulary, raced))]
    return rows


def training_part(labels: Mapping[str, Labels],
                  races: Races | None) -> tuple[dict[str, Labels], Races | None]:
    """The labels and races of problems that are not held out; kernels without any are left out."""
    split = {name: one.split()[0] for name, one in labels.items()}
    kept = None if races is None else races.take(np.flatnonzero(~races.questions.held_out))
    return {name: one for name, one in split.items() if len(one)}, kept


def _learned_from(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(checkpoint.learned.knows(labels.questions.hashes)))


def _unlearned(labels: Labels, checkpoint: LabelCheckpoint) -> Labels:
    return labels.take(np.flatnonzero(~checkpoint.learned.knows(labels.questions.hashes)))
