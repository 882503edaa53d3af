"""StopRequest: the first Ctrl-C asks a run to end in order, the second one ends it at once."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """A context in which the first SIGINT only sets `asked`. Outside the main thread it changes nothing."""

    def __init__(self) -> None:
        self.asked = False
        self._handler: Any = None  # the handler that is replaced; None if there is none

    def __enter__(self) -> StopRequest:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._handler(number, frame)
        self.asked = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
