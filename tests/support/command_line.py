"""The types of the fixtures that run commands (tests/front/conftest.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Run = Callable[..., dict[str, Any]]  # the words of a command that succeeds -> its JSON object
Refused = Callable[..., str]  # the words of a command that is misused -> its line on stderr
