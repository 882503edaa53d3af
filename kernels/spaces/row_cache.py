"""ValidRows: the rows of a space, kept for the problems that share them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import lru_cache
from typing import Any, NamedTuple

from ..kernel import Kernel
from ..row_index import PrefixBorders, Rows

Names = tuple[tuple[str, Any], ...]  # names of problem and device that a kernel reads, with their values

MOST_BYTES = 128_000_000  # of all rows that are kept: 400 spaces of 10,000 configurations of 8 parameters
MOST_RULES = 1024  # different sets of constraints


class ValidRows(NamedTuple):
    """The valid configurations of a kernel for a problem on a device, and where their prefixes begin."""

    rows: Rows
    borders: PrefixBorders

    @property
    def bytes(self) -> int:
        """The memory that they take when all borders are known, about."""
        return self.rows.nbytes + 16 * len(self.rows)


class RowCache:
    """Rows by all that they depend on. The least recently used ones go first. Threads may share a cache."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._known: OrderedDict[tuple[Any, Names], ValidRows] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """The memory that all rows take."""
        return self._bytes

    def known(self, kernel: Kernel, names: Names) -> ValidRows | None:
        """The rows of a kernel for the values of the names that they depend on; None if they are not kept."""
        key = _rules(kernel), names
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
            return known

    def keep(self, kernel: Kernel, names: Names, found: ValidRows) -> None:
        """Keep rows."""
        key = _rules(kernel), names
        with self._lock:
            if key not in self._known:
                self._known[key] = found
                self._bytes += found.bytes
            while self._bytes > self._most and len(self._known) > 1:
                self._bytes -= self._known.popitem(last=False)[1].bytes


@lru_cache(maxsize=MOST_RULES)
def _rules(kernel: Kernel) -> _Rules:
    return _Rules(kernel)


class _Rules:
    """The parameters, constraints and derived quantities that decide a kernel's rows; kernels may share them.

    It is compared by what it says, and its hash is computed once.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._said = (kernel.parameters, tuple(constraint.expression.text for constraint in kernel.constraints),
                      tuple((name, expression.text) for name, expression in kernel.derived))
        self._hash = hash(self._said)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Rules) and self._hash == other._hash and self._said == other._said)
