"""Compiled C: texts in C99 as functions of this process."""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from tests.support.learning.compiled_predictor import compile_shared

HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
POINTER = ctypes.POINTER(ctypes.c_uint8)


def compiled(text: str, headers: str = HEADERS) -> ctypes.CDLL:
    """The functions of a text in C99; `headers` stand before it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "text.c")
        source.write_text(headers + text)
        return ctypes.CDLL(str(compile_shared(source, ())))
