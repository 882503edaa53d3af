"""Say: a callback that receives a short text for each step of long work."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(step: str) -> None:
    """Ignore the step."""
