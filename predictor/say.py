"""Say: how long work tells in a few words what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(step: str) -> None:
    """A Say that says nothing."""
