"""Feature table: the features of some rows of a space, which trees and Gaussian processes read.

Both are asked about the same candidates, one after the other, so the latest table of each space is kept.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from seqtune.kernels.row_index import Numbers
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.cost_models.features import FeatureList, Table, features

MOST_KEPT = 256  # rows of a table that is kept: more than any task has candidates

_LATEST: WeakKeyDictionary[SearchSpace, tuple[Numbers, FeatureList, Table]] = WeakKeyDictionary()


def feature_table(space: SearchSpace, rows: Numbers, listed: FeatureList = "ratios") -> Table:
    """The features of rows of a space, as `features` computes them: (row, feature), read-only.

    The caller must not change `rows` afterwards, since they are kept beside the table.
    """
    latest = _LATEST.get(space)
    if latest is not None and latest[1] == listed and np.array_equal(latest[0], rows):
        return latest[2]
    table = features(space, rows, listed)
    table.setflags(write=False)
    if len(rows) <= MOST_KEPT:
        _LATEST[space] = rows, listed, table
    return table
