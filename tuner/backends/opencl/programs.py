"""Builds OpenCL programs without letting the compiler's remarks reach the user's terminal."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from seqtune.errors import one_line

from ..backend import BuildError


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
    """The most informative line of a driver's message: the compiler's first `error:`, else the first line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return one_line(next((line for line in lines if "error:" in line), lines[0] if lines else error))
