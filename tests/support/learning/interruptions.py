"""Interruptions: what another thread may do between two lines of a call, without the luck that threads need."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, TypeVar

Result = TypeVar("Result")


def interrupted(call: Callable[[], Result], other: Callable[[], object], module: ModuleType) -> Result:
    """The result of a call; the other call is made before each of its lines that stands in the module."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        if frame.f_code.co_filename != module.__file__:
            return None
        if event == "line":
            lines += 1
            other()  # is not traced itself
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = call()
    finally:
        sys.settrace(before)
    assert lines, "the call executes no line of the module"
    return result
