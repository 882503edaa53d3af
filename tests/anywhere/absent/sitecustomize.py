"""Makes packages absent: `SEQTUNE_TEST_ABSENT=torch,triton`. Python imports this first from a folder on PYTHONPATH.

Importing such a package raises ModuleNotFoundError, and `importlib.util.find_spec` finds nothing, as if pip had never
installed it. Its metadata (`importlib.metadata`) stay visible.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ABSENT = frozenset(filter(None, os.environ.get("SEQTUNE_TEST_ABSENT", "").split(",")))


class WithoutAbsent(PathFinder):
    """Finds modules on sys.path, but for those of absent packages."""

    @classmethod
    def find_spec(cls, fullname: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """The specification of a module, or None."""
        return None if fullname.partition(".")[0] in ABSENT else super().find_spec(fullname, path, target)


if ABSENT:
    sys.meta_path[:] = [WithoutAbsent if finder is PathFinder else finder for finder in sys.meta_path]
