"""Say: a callback that receives lines for the user.

Two parameters are named after the purpose of a line. `progress` receives a line for each step of long work; `note`
receives what the user should notice. Some `progress` callbacks also receive objects with figures, such as an Epoch or a
TuningProgress: their types say so, and a bar shows them.
"""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def silent(step: object) -> None:
    """Ignore the step."""
