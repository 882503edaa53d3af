"""Parent death: a process of seqtune ends with the process that started it, however that one ends."""

from __future__ import annotations

import ctypes
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


def die_with_parent() -> None:
    """End this process when the parent's thread ends, even if a hung driver holds the GIL. This works on Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
