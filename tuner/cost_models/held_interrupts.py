"""HeldInterrupts: Ctrl-C waits while compiled code calls back into Python, and is delivered afterwards.

Python delivers SIGINT between two instructions, also inside a function that a library called through ctypes. There the
KeyboardInterrupt cannot reach the caller: it is printed and lost, and the library goes on with data that were never
passed to it.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class HeldInterrupts:
    """A context in which SIGINT is only noted until `deliver`, or the end of the context, hands it to its handler.

    Contexts may be nested. Where no Python function handles SIGINT, and outside the main thread, where Python runs no
    handlers, there is nothing to hold.
    """

    def __init__(self) -> None:
        self._noted: tuple[int, FrameType | None] | None = None
        self._handler: Any = None  # the handler that is replaced; None if there is nothing to hold

    def __enter__(self) -> HeldInterrupts:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def deliver(self) -> None:
        """Hand an interrupt that has come to its handler, which usually raises KeyboardInterrupt."""
        noted, self._noted = self._noted, None
        if noted is not None:
            self._handler(*noted)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
            self.deliver()
