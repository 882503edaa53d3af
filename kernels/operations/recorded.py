"""recorded: work of any kind that another tool measured; its problems have any named features."""

from __future__ import annotations

from .operation import Operation


class RecordedOperation(Operation):
    """An operation with any named features; this package has no kernel that runs it."""

    name = "recorded"
    meaning = "any named features, for data measured elsewhere"
    example = "recorded size=4096 precision=double"


OPERATION = RecordedOperation()
