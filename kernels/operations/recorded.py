"""recorded: work of any kind that was measured elsewhere. Its problems have any named features."""

from __future__ import annotations

from .operation import Operation


class Recorded(Operation):
    """Any named features; nothing here runs it."""

    name = "recorded"
    meaning = "any named features, for data measured elsewhere"
    example = "recorded size=4096 precision=double"


OPERATION = Recorded()
