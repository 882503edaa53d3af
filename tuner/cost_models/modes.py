"""Modes: ways of computing that the analytic model compares less well than tiles, and an order that tries several.

Whether operands pass shared memory or the first-level cache, whether loads are staged, which cores multiply and whether
k is split decides among rates that no data sheet states; within one mode, these errors are nearly equal for all tiles.
So the first proposals after the best one are the best of other modes whose estimates are near.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.task import Floats, Task

from .product_tiles import describes_tiles, tiles_of

NEAR = 1.25  # a mode is tried if its best estimate is at most this multiple of the best; most errors are smaller
MOST_OTHERS = 3  # other modes that are tried before the second best of any mode
RING = 3  # stages from which loads are asynchronous


def modes(task: Task, numbers: Numbers) -> NDArray[np.int64]:
    """A number for the mode of each of some configurations (configuration,); -1 where tiles are not described."""
    labels = np.full(len(numbers), -1, np.int64)
    for index, (space, part) in enumerate(task.parts()):
        own = np.flatnonzero((numbers >= part.start) & (numbers < part.stop))
        if len(own) and describes_tiles(space.kernel):
            tiles = tiles_of(space.at(numbers[own] - part.start))
            staged = np.where(tiles.staged_share <= 0, 0, np.where(tiles.staged_share >= 1, 2, 1))
            ring, sliced = np.minimum(tiles.stages, RING), tiles.split_k > 1
            # the number that has these digits: `staged` and `tensor` are 0 to 2, `ring` 0 to RING, `sliced` 0 or 1
            labels[own] = (((index * 3 + staged) * 3 + tiles.tensor) * (RING + 1) + ring) * 2 + sliced
    return labels


def order(task: Task, seconds: Floats, count: int) -> Numbers:
    """The first `count` numbers of a task by estimated seconds (number,), with other modes after the best.

    Among equal estimates, which differ in what the model does not know, the configurations nearest to their kernel's
    default come first. Configurations without an estimate (nan) or that do not fit (infinite) come last, the default
    first among them.
    """
    known = np.flatnonzero(np.isfinite(seconds))
    ranked = known
    if len(known):
        near, last = NEAR * seconds[known].min(), min(count, len(known)) - 1
        ranked = known[seconds[known] <= max(near, np.partition(seconds[known], last)[last])]  # no more are needed
        ranked = ranked[np.lexsort((_changes(task, ranked), seconds[ranked]))]
        labels = modes(task, ranked[seconds[ranked] <= near])
        first = np.sort(np.unique(labels, return_index=True)[1])[:1 + MOST_OTHERS]
        ranked = np.concatenate([ranked[first], np.delete(ranked, first)])
    if len(ranked) < count:
        rest = np.flatnonzero(~np.isfinite(seconds))
        default = task.number(task.default)
        ranked = np.concatenate([ranked, rest[rest == default], rest[rest != default]])
    return np.asarray(ranked[:count])


def _changes(task: Task, numbers: Numbers) -> NDArray[np.int64]:
    """The number of parameters in which configurations differ from their kernel's default (configuration,).

    It is 0 for recorded kernels, whose default is just their first configuration.
    """
    changes = np.zeros(len(numbers), np.int64)
    for space, own, rows in task.by_space(numbers):
        if space.kernel.operation != "recorded":
            changes[own] = (space.rows[rows] != space.rows[space.row(space.default)]).sum(axis=1)
    return changes
