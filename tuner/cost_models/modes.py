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


def modes(task: Task) -> NDArray[np.int64]:
    """A number for the mode of each configuration (number,); configurations without described tiles have -1."""
    labels = np.full((len(task), 5), -1, np.int64)
    for index, (space, part) in enumerate(task.parts()):
        if describes_tiles(space.kernel):
            tiles = tiles_of(space)
            staged = np.where(tiles.staged_share <= 0, 0, np.where(tiles.staged_share >= 1, 2, 1))
            columns = (np.full(len(space), index), staged, tiles.tensor, np.minimum(tiles.stages, RING),
                       tiles.split_k > 1)
            labels[part] = np.stack(columns, axis=1).astype(np.int64)
    inverse = np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1)
    return np.where(labels[:, 0] < 0, -1, inverse)


def order(task: Task, seconds: Floats, count: int) -> Numbers:
    """The first `count` numbers of a task by estimated seconds (number,), with other modes after the best.

    Among equal estimates, which differ in what the model does not know, the configurations nearest to their kernel's
    default come first. Configurations without an estimate (nan) or that do not fit (infinite) come last, the default
    first among them.
    """
    known = np.isfinite(seconds)
    ranked = np.lexsort((_changes(task), np.where(known, seconds, np.inf)))[:int(known.sum())]
    if len(ranked):
        labels = modes(task)[ranked]
        near = seconds[ranked] <= NEAR * seconds[ranked[0]]
        first = np.sort(np.unique(np.where(near, labels, labels[0]), return_index=True)[1])[:1 + MOST_OTHERS]
        ranked = np.concatenate([ranked[first], np.delete(ranked, first)])
    if len(ranked) < count:
        rest = np.flatnonzero(~known)
        default = task.number(task.default)
        ranked = np.concatenate([ranked, rest[rest == default], rest[rest != default]])
    return np.asarray(ranked[:count])


def _changes(task: Task) -> NDArray[np.int64]:
    """The number of parameters in which each configuration differs from its kernel's default (number,).

    It is 0 for recorded kernels, whose default is just their first configuration.
    """
    changes = np.zeros(len(task), np.int64)
    for space, part in task.parts():
        if space.kernel.operation != "recorded":
            changes[part] = (space.rows != space.rows[space.row(space.default)]).sum(axis=1)
    return changes
