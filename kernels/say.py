"""Say: a callback that receives lines for the user.

Two parameters are called by what a line is for. `progress` receives a line for each step of long work; `note` receives
what the user should notice. Some `progress` also receives objects with figures, such as an Epoch or a TuningProgress:
its own type says so, and a bar shows them.
"""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(step: object) -> None:
    """Ignore the step."""
