"""StopRequest: the first Ctrl-C or SIGTERM asks a run to end in order, the second one ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any


class StopRequest:
    """A context in which the first signal only sets `asked`. Outside the main thread it changes nothing.

    A signal that the process ignores stays ignored, as Ctrl-C does in a job that a shell script has put into the
    background. `notice` is printed at the first signal. If it is not `active`, nothing changes.
    """

    def __init__(self, notice: str = "", active: bool = True) -> None:
        self.asked = False
        self._notice, self._active = notice, active
        self._handlers: dict[int, Any] = {}  # signal -> the handler that is replaced

    def __enter__(self) -> StopRequest:
        if self._active and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if callable(handler) or (handler == signal.SIG_DFL and number == signal.SIGTERM):
                    self._handlers[number] = handler
                    signal.signal(number, self._ask)
        return self

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            self._handlers.get(signal.SIGINT, _interrupt)(number, frame)
        elif self._notice:  # without a buffer: the program may be in the middle of printing
            with suppress(OSError):
                os.write(2, f"{self._notice}\n".encode())
        self.asked = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """A context in which SIGTERM does what Ctrl-C does, so that whatever was started is ended.

    Outside the main thread it changes nothing, and a handler of the program stays.
    """
    if threading.current_thread() is not threading.main_thread() \
            or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _interrupt(number: int, frame: FrameType | None) -> None:
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):  # it may hold interrupts back for a moment
        handler(signal.SIGINT, frame)
    else:
        raise KeyboardInterrupt
