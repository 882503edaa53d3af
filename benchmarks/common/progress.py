"""Progress: what a program is doing, on standard error."""

from __future__ import annotations

import sys


def say(step: object) -> None:
    """Print a line about the progress."""
    print(step, file=sys.stderr, flush=True)
