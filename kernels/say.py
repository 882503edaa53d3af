"""Say: a callback that receives lines for the user.

A parameter `progress` receives a line for each step of long work, and `note` one for what the user should notice.
"""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(step: object) -> None:
    """Ignore the step."""
