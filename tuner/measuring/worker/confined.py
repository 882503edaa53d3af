"""ConfinedWorker: a measuring worker that gives up rights before it starts.

OpenCL C on a CPU device is native code with the user's rights, and the compiler accepts assembly. Therefore kernels of
a file that may run no commands are measured by `python -m seqtune.tuner.measuring.worker.confined CACHE PATH...`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ...confinement.rights import confine


def main(words: Sequence[str]) -> None:
    """Confine this process and be a measuring worker."""
    confine(Path(words[0]), map(Path, words[1:]))
    from .worker import main as work  # imports NumPy, whose threads would not be confined

    work()


if __name__ == "__main__":
    main(sys.argv[1:])
