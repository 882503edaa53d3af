"""Progress: what a program is doing, on standard error."""

from __future__ import annotations

import sys


def say(step: object) -> None:
    """Print a line about the progress: a text, or something with one."""
    print(getattr(step, "text", step), file=sys.stderr, flush=True)
