"""StderrCapture: lines that libraries write to the standard error of the process, past Python, go to a file."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from types import TracebackType
from typing import IO, Any

LONGEST = 4096  # bytes of the file that are read for a reason

_PREFIX = re.compile(r"\[[^]]*\] (\(\w+\) )?[\w.]+:\d+: ")  # as Ray's C++ side notes it: [time, process] file:line:


class StderrCapture:
    """A context in which descriptor 2 is a file, while Python's `sys.stderr` goes on writing where it wrote.

    Ray's C++ side writes to this descriptor, at any time and from its own threads.
    """

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._saved = -1  # the descriptor that was standard error
        self._stream: Any = None  # Python's, which is replaced; None if it did not write to descriptor 2
        self._own: io.TextIOWrapper | None = None

    def __enter__(self) -> StderrCapture:
        try:
            self._saved = os.dup(2)
        except OSError:  # the program runs without standard error
            return self
        self._file = tempfile.TemporaryFile()
        if _descriptor(sys.stderr) == 2:
            self._stream = sys.stderr
            self._stream.flush()
            self._own = os.fdopen(os.dup(self._saved), "w", buffering=1, encoding=getattr(sys.stderr, "encoding", None),
                                  errors="backslashreplace")
            sys.stderr = self._own
        os.dup2(self._file.fileno(), 2)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Put everything back. It may be called twice."""
        if self._saved < 0:
            return
        os.dup2(self._saved, 2)
        os.close(self._saved)
        self._saved = -1
        if self._own is not None:
            self._own.flush()
            if sys.stderr is self._own:
                sys.stderr = self._stream
                self._own.close()
        if self._file is not None:
            self._file.close()

    def last_line(self) -> str:
        """The last line that was captured, without its time, process and source line; empty if there is none."""
        if self._file is None or self._file.closed:
            return ""
        size = os.fstat(self._file.fileno()).st_size
        text = os.pread(self._file.fileno(), LONGEST, max(0, size - LONGEST)).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return _PREFIX.sub("", lines[-1]) if lines else ""


def _descriptor(stream: Any) -> int:
    """The descriptor of a stream; -1 if it has none."""
    try:
        return int(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return -1
