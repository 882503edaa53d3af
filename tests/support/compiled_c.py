"""Compiled C: texts in C99 as functions of this process."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

from tests.support.learning.compiled_predictor import STRICT, compiler

HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
POINTER = ctypes.POINTER(ctypes.c_uint8)


def compiled(text: str) -> ctypes.CDLL:
    """The functions of a text in C99; the headers of numbers stand before it."""
    command = compiler()
    assert command is not None
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "text.c"), Path(folder, "text.so")
        source.write_text(HEADERS + text)
        subprocess.run([command, *STRICT, "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
        return ctypes.CDLL(str(library))
