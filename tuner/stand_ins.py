"""Stand-ins: the configurations that replace the safe default in comparisons where it does not run.

A default that its author never ran, such as the first value of every parameter, may fail to compile or may be refused,
while others run. Up to TRIES configurations of the default's kernel are tried, then the safe default of every other
kernel. Each next configuration of a kernel shares the fewest values with those that failed, since one value is usually
to blame; of equals, the one counts whose values are nearest to the default's in their lists, then the first in the
space.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import numpy as np

from seqtune.kernels.kernel import Configuration, identity
from seqtune.kernels.libraries.table import library_in_use
from seqtune.kernels.registry import is_registered
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import Task

TRIES = 8  # configurations of one kernel, the default included: each may take a compiler's second


def default_and_stand_ins(task: Task) -> Iterator[Configuration]:
    """The task's safe default, then those that stand in for it, in the order in which they are tried."""
    default = task.default
    yield default
    spaces = sorted(task.spaces, key=lambda space: space.kernel.name != default.kernel)  # stable
    yield from _others(spaces[0], default)
    for space in spaces[1:]:
        yield space.default


def _others(space: SearchSpace, default: Configuration) -> Iterator[Configuration]:
    """Up to TRIES - 1 further configurations of the default's space."""
    rows, row = space.rows.astype(np.int64), space.row(default)
    columns = np.arange(rows.shape[1])
    seen = np.zeros((rows.shape[1], int(rows.max(initial=0)) + 1), np.int64)  # how often a value was tried, by column
    moves, tried = np.abs(rows - rows[row]).sum(axis=1), np.zeros(len(rows), np.bool_)
    far = int(moves.max(initial=0)) + 1
    for _ in range(min(TRIES, len(rows)) - 1):
        tried[row] = True
        seen[columns, rows[row]] += 1
        cost = seen[columns, rows].sum(axis=1) * far + moves
        row = int(np.argmin(np.where(tried, np.iinfo(np.int64).max, cost)))
        yield space[row]


def failed_default(default: Configuration, reason: str, stand_in: Configuration | None = None, others: int = 0) -> str:
    """The sentence about a default that failed: why, what stands in for it, and how its library chooses another one.

    `others` is the number of other configurations that failed as well.
    """
    more = f", and so did {others} more" if others else ""
    instead = "" if stand_in is None else (
        f"; compared with {stand_in.kernel + ' ' if stand_in.kernel != default.kernel else ''}{stand_in.brief()} "
        "instead")
    return f"the default configuration of {default.kernel} failed: {reason} ({default.brief()}){more}{instead}" + (
        _advice(default, stand_in))


def _advice(default: Configuration, stand_in: Configuration | None) -> str:
    """How to declare another default, for kernels of a library that a file declares."""
    if not is_registered(default.kernel):
        return ""
    library = library_in_use(default.kernel.partition(".")[0])
    if library.document is None:
        return ""
    values = "{...}" if stand_in is None or stand_in.kernel != default.kernel else _table(default, stand_in)
    return f"; to choose the default, write `default = {values}` for {default.kernel} in {library.origin}"


def _table(default: Configuration, stand_in: Configuration) -> str:
    """The values of a stand-in that differ from the default's, as TOML writes them."""
    former = dict(default.settings)
    changed: Sequence[str] = [f"{name} = {json.dumps(value)}" for name, value in stand_in.settings
                              if identity(former[name]) != identity(value)]
    return "{" + ", ".join(changed) + "}"
