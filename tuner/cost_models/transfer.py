"""Transfer: what other devices and other problems say about a union's configurations, before anything is measured.

Each past gives a *source*: log(time / best time) by the union's numbers. Pasts of the same problem are looked up as
they are; where there are none, or they have holes, boosted trees fitted on all pasts fill in. What failed elsewhere
counts as slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.union import Numbers, Past, Union

from .features import features

Floats = NDArray[np.float64]

WORST = 3.0  # log ratios are cut here, and failures stand here: how bad the hopeless are is no use
MOST_SOURCES = 6  # looked up one by one
MOST_ROWS = 20_000  # that the trees are fitted on
ENOUGH = 0.9  # of the union known from pasts of the same problem: then no trees are needed
UNKNOWN = 0.3  # how many further devices of middling speed an entry stands for: who is known less is believed less


@dataclass(frozen=True, eq=False)
class Sources:
    """`prior` is the log(time / best time) expected of each number; `each` is (number, source), complete.

    `fastest` is the best time to expect, in seconds: the geometric mean of the other devices' for the same problem.
    """

    prior: Floats
    each: Floats
    fastest: float | None = None


def sources(union: Union, history: Sequence[Past], seed: int = 0) -> Sources | None:
    """What the pasts say; None where they have no time of any kernel of the union."""
    looked_up = [(past, looked) for past in history if (looked := look_up(union, past)) is not None]
    if not looked_up:
        return None
    problem = union.spaces[0].problem
    same = [looked for past, looked in looked_up if past.spaces[0].problem.key == problem.key][:MOST_SOURCES]
    known = ~np.isnan(np.stack(same, axis=1)).all(axis=1) if same else np.zeros(len(union), bool)
    trees = None
    if known.mean() < ENOUGH:
        trees = fitted(union, history, seed)
    if not same:
        near = [looked for _, looked in looked_up if np.isfinite(looked).any()]
        base = trees if trees is not None else consensus(np.stack(near, axis=1))
        return Sources(base, base[:, None])
    each = np.stack(same, axis=1)
    prior = consensus(each)
    if trees is not None:
        prior = np.where(np.isnan(prior), trees, prior)
    prior = np.where(np.isnan(prior), np.nanmax(prior), prior)
    times = [float(past.seconds[np.isfinite(past.seconds)].min()) for past, _ in looked_up
             if past.spaces[0].problem.key == problem.key]
    return Sources(prior, np.where(np.isnan(each), prior[:, None], each), float(np.exp(np.log(times).mean())))


def look_up(union: Union, past: Past) -> Floats | None:
    """log(time / best time) of the past by the union's numbers, nan where it has none; None where it has no time."""
    times = past.seconds[np.isfinite(past.seconds)]
    if not len(times):
        return None
    ratios = np.minimum(np.log(past.seconds / times.min()), WORST)
    found = np.full(len(union), np.nan)
    other = Union(past.spaces)
    for place, space in enumerate(union.spaces):
        for there, past_space in enumerate(past.spaces):
            if past_space.kernel.parameters == space.kernel.parameters and past_space.kernel.name == space.kernel.name:
                rows = other.finder(there).find(space.rows)
                values = np.where(rows >= 0, ratios[np.maximum(rows, 0) + int(other.begins[there])], np.nan)
                found[union.begins[place]:union.ends[place]] = values
    return found if np.isfinite(found).any() else None


def consensus(each: Floats) -> Floats:
    """The mean over the sources, drawn to the median the more of them are missing; nan where all are."""
    count = (~np.isnan(each)).sum(axis=1)
    total = np.nansum(each, axis=1)
    middle = float(np.nanmedian(each))
    return np.where(count > 0, (total + UNKNOWN * middle) / (count + UNKNOWN), np.nan)


def fitted(union: Union, history: Sequence[Past], seed: int) -> Floats | None:
    """What trees fitted on all pasts predict for the union; None where none of its kernels is in them."""
    from .trees import CostModel

    generator = np.random.default_rng(seed)
    total = sum(int((~np.isnan(past.seconds)).sum()) for past in history)
    share = min(1.0, MOST_ROWS / total)
    found = np.full(len(union), np.nan)
    for place, space in enumerate(union.spaces):
        mine = features(space, np.arange(len(space)))
        rows: list[NDArray[np.float32]] = []
        ratios: list[Floats] = []
        for past in history:
            times = past.seconds[np.isfinite(past.seconds)]
            begin = 0
            for past_space in past.spaces:
                part = past.seconds[begin:begin + len(past_space)]
                begin += len(past_space)
                if past_space.kernel.name != space.kernel.name or not len(times):
                    continue
                chosen: Numbers = np.flatnonzero(~np.isnan(part))
                chosen = generator.permutation(chosen)[:int(np.ceil(share * len(chosen)))]
                part_features = features(past_space, chosen)
                if len(chosen) and part_features.shape[1] == mine.shape[1]:
                    rows.append(part_features)
                    ratios.append(np.minimum(np.log(part[chosen] / times.min()), WORST))
        if rows:
            target = np.concatenate(ratios)
            model = CostModel.regression(np.concatenate(rows), target, np.exp(-target), seed)
            found[union.begins[place]:union.ends[place]] = model.predict(mine)
    if np.isnan(found).all():
        return None
    return np.where(np.isnan(found), np.nanmedian(found), found)  # an untried kernel is as good as any
