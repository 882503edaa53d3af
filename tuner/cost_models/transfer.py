"""Transfer: what other devices and other problems say about a task's configurations, before anything is measured.

Each measured task of the history gives a *source*: log(time / best time) by the task's numbers. Those of the same
problem are looked up as they are; where there are none, or they have holes, boosted trees fitted on the whole history
fill in. What failed elsewhere counts as slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Floats, MeasuredTask, Task

from .features import features

WORST = 3.0  # log ratios are cut here, and failures stand here: how bad the hopeless are is no use
MOST_SOURCES = 6  # looked up one by one
MOST_ROWS = 20_000  # that the trees are fitted on
ENOUGH = 0.9  # share of the task known from the same problem elsewhere: then no trees are needed
UNKNOWN = 0.3  # how many further devices of middling speed an entry stands for: who is known less is believed less


@dataclass(frozen=True, eq=False)
class Sources:
    """`prior` is the log(time / best time) expected of each number; `each` is (number, source), complete.

    `fastest` is the best time to expect, in seconds: the geometric mean of the other devices' for the same problem.
    """

    prior: Floats
    each: Floats
    fastest: float | None = None


def sources(task: Task, history: Sequence[MeasuredTask], seed: int = 0) -> Sources | None:
    """The sources that a history gives; None where it has no time of any kernel of the task."""
    looked_up = [(other, ratios) for other in history if (ratios := look_up(task, other)) is not None]
    if not looked_up:
        return None
    same = [ratios for other, ratios in looked_up if other.problem.key == task.problem.key][:MOST_SOURCES]
    known = ~np.isnan(np.stack(same, axis=1)).all(axis=1) if same else np.zeros(len(task), bool)
    trees = None
    if known.mean() < ENOUGH:
        trees = fitted(task, history, seed)
    if not same:
        near = [ratios for _, ratios in looked_up if np.isfinite(ratios).any()]
        base = trees if trees is not None else consensus(np.stack(near, axis=1))
        return Sources(base, base[:, None])
    each = np.stack(same, axis=1)
    prior = consensus(each)
    if trees is not None:
        prior = np.where(np.isnan(prior), trees, prior)
    prior = np.where(np.isnan(prior), np.nanmax(prior), prior)
    times = [float(other.seconds[np.isfinite(other.seconds)].min()) for other, _ in looked_up
             if other.problem.key == task.problem.key]
    return Sources(prior, np.where(np.isnan(each), prior[:, None], each), float(np.exp(np.log(times).mean())))


def look_up(task: Task, other: MeasuredTask) -> Floats | None:
    """log(time / best time) of the other by the task's numbers, nan where it has none; None where it has no time."""
    times = other.seconds[np.isfinite(other.seconds)]
    if not len(times):
        return None
    ratios = np.minimum(np.log(other.seconds / times.min()), WORST)
    by_number = np.full(len(task), np.nan)
    for space, part in task.parts():
        for other_space, other_part in other.task.parts():
            if (other_space.kernel.parameters == space.kernel.parameters
                    and other_space.kernel.name == space.kernel.name):
                rows = other_space.index.find(space.rows)
                by_number[part] = np.where(rows >= 0, ratios[other_part][np.maximum(rows, 0)], np.nan)
    return by_number if np.isfinite(by_number).any() else None


def consensus(each: Floats) -> Floats:
    """The mean over the sources, drawn to the median the more of them are missing; nan where all are."""
    count = (~np.isnan(each)).sum(axis=1)
    total = np.nansum(each, axis=1)
    middle = float(np.nanmedian(each))
    return np.where(count > 0, (total + UNKNOWN * middle) / (count + UNKNOWN), np.nan)


def fitted(task: Task, history: Sequence[MeasuredTask], seed: int) -> Floats | None:
    """What trees fitted on the history predict for the task; None where none of its kernels is in it."""
    from .trees import CostModel

    generator = np.random.default_rng(seed)
    total = sum(int(other.known.sum()) for other in history)
    share = min(1.0, MOST_ROWS / total)
    by_number = np.full(len(task), np.nan)
    for space, part in task.parts():
        table = features(space, np.arange(len(space)))
        rows, ratios = _examples(space, history, share, generator, table.shape[1])
        if rows:
            target = np.concatenate(ratios)
            model = CostModel.regression(np.concatenate(rows), target, np.exp(-target), seed)
            by_number[part] = model.predict(table)
    if np.isnan(by_number).all():
        return None
    return np.where(np.isnan(by_number), np.nanmedian(by_number), by_number)  # an untried kernel is as good as any


def _examples(space: SearchSpace, history: Sequence[MeasuredTask], share: float, generator: np.random.Generator,
              width: int) -> tuple[list[NDArray[np.float32]], list[Floats]]:
    """Features and log ratios of a random share of the history's measurements of the space's kernel."""
    rows: list[NDArray[np.float32]] = []
    ratios: list[Floats] = []
    for other in history:
        times = other.seconds[np.isfinite(other.seconds)]
        for other_space, part in other.task.parts():
            if other_space.kernel.name != space.kernel.name or not len(times):
                continue
            seconds = other.seconds[part]
            chosen: Numbers = np.flatnonzero(~np.isnan(seconds))
            chosen = generator.permutation(chosen)[:int(np.ceil(share * len(chosen)))]
            table = features(other_space, chosen)
            if len(chosen) and table.shape[1] == width:
                rows.append(table)
                ratios.append(np.minimum(np.log(seconds[chosen] / times.min()), WORST))
    return rows, ratios
