"""Builds OpenCL programs without letting the compiler's remarks reach the user's terminal."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from seqtune.errors import one_line

from ..backend import BuildError

_LINKING = ("cannot find symbol", "undefined", "unresolved")  # PoCL's words, and those of ld and of other linkers


def build(cl: Any, context: Any, text: str, options: Sequence[str]) -> Any:
    """Build a program for the context's devices. Raises BuildError with the compiler's first error.

    Some compilers, such as Intel's, write remarks about every successful build; pyopencl turns them into a warning.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return cl.Program(context, text).build(options=list(options))
    except cl.Error as error:
        raise BuildError(error_line(error)) from None


def error_line(error: Exception) -> str:
    """The most informative line of a driver's message: the compiler's or linker's first error.

    Without one it is the first line of the build log, which follows "Build on ..." in pyopencl's messages, or else of
    the message.
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    compiler = next((line for line in lines if "error:" in line), "")
    if compiler:
        return one_line(compiler)
    linker = next((line for line in lines if any(words in line.lower() for words in _LINKING)), "")
    if linker:
        return one_line(f"the program does not link: {linker}")
    begin = next((number for number, line in enumerate(lines) if line.startswith("Build on ")), len(lines))
    log = [line for line in lines[begin + 1:] if not line.startswith("(options:")]
    return one_line(next(iter(log or lines), error))
