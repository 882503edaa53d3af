"""The exceptions of seqtune. Each message says what was found and what to do, in one line.

SeqtuneError                 something could not be done                     (exit code 1)
├── UnavailableError         a backend, driver or tool is missing here
│   └── MissingPackageError  a package of an extra is not installed          (exit code 2)
├── UnpreparedError          a problem cannot be measured; others may be
│   └── UnpreparedMisuseError  because it, or its library, is wrong; also a MisuseError (exit code 2)
├── Interrupted              the user stopped a long job                     (exit code 130)
│   ├── InterruptedTuning    what was measured is kept
│   └── InterruptedTraining  what was learned is kept
└── MisuseError              an input is wrong                               (exit code 2)
    ├── ProblemError         a problem cannot be read or is impossible
    ├── DeviceError          a device is not available here
    ├── KernelError          a kernel is unknown or does not solve the problem
    ├── ConfigurationError   a configuration is outside its search space
    ├── ExpressionError      a constraint cannot be parsed or evaluated
    ├── FormatError          a file is damaged, foreign or of another schema
    └── CheckpointError      a checkpoint is damaged or does not fit

A configuration that fails to build or run raises none of these: it is data (a Measurement with its status).
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Sequence
from types import FrameType
from typing import Any

LONGEST_MESSAGE = 2000  # characters
# The control characters of ISO 6429.
_CONTROL = {code: " " for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n"}
# Titles of packages, where they differ from the name.
_TITLES = {"accelerate": "Hugging Face accelerate", "matplotlib": "Matplotlib", "torch": "PyTorch",
           "transformers": "Hugging Face transformers", "triton": "Triton (Linux only)"}


_BETWEEN = ("seqtune", "torch", "contextlib", "functools")  # modules between a user's line and a warning


class SeqtuneError(Exception):
    """Root of the tree; `str(error)` is one line fit for a user, whatever an input has put into the message."""

    exit_code = 1

    def __str__(self) -> str:
        return one_line(super().__str__(), LONGEST_MESSAGE)


class UnavailableError(SeqtuneError):
    """A backend, driver or tool is missing on this machine."""


class MissingPackageError(UnavailableError):
    """A Python package of one of seqtune's extras is not installed."""

    exit_code = 2


class Interrupted(SeqtuneError):
    """The user stopped a long job (Ctrl-C, or SIGTERM)."""

    exit_code = 130  # 128 + SIGINT, as shells report it


class InterruptedTuning(Interrupted):
    """Measuring was stopped; everything measured so far is in the journal. `results` are the best so far."""

    def __init__(self, message: str, results: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.results = tuple(results)  # the tuner's, one for each search without a final result
        self.report: Any = None  # seqtune.tune's report of all results so far


class InterruptedTraining(Interrupted):
    """A training was stopped; its state is kept, and the same call resumes it."""


class UnpreparedError(SeqtuneError):
    """A problem's operands or expected result cannot be made here, so it cannot be measured; others may be."""


class MisuseError(SeqtuneError):
    """An input is wrong."""

    exit_code = 2


class UnpreparedMisuseError(UnpreparedError, MisuseError):
    """A problem cannot be measured because it, or what its library declares, is wrong."""


class ProblemError(MisuseError):
    """A problem cannot be read or is impossible."""


class DeviceError(MisuseError):
    """A device is not available here."""


class KernelError(MisuseError):
    """A kernel is unknown or does not solve the problem."""


class ConfigurationError(MisuseError):
    """A configuration is outside its search space."""


class ExpressionError(MisuseError):
    """A constraint cannot be parsed or evaluated."""


class FormatError(MisuseError):
    """A file is damaged, foreign or of another schema."""


class CheckpointError(MisuseError):
    """A checkpoint is damaged or does not fit."""


class SeqtuneWarning(UserWarning):
    """A note that the user should not miss; the command line prints it in one line."""


def warned(step: str) -> None:
    """Issue a Python warning at the user's line that led here; the `Say` for notes that the user should not miss."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(step, SeqtuneWarning, stacklevel=level)


def is_installed(package: str) -> bool:
    """Return whether a top-level package can be found; it is not imported."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # a finder on `sys.meta_path` refuses the package
        return False


def check_installed(extra: str, *packages: str) -> None:
    """Raise MissingPackageError, with the command that installs the extra, if one of its packages is missing."""
    for package in packages:
        if not is_installed(package):
            raise MissingPackageError(
                f"{_TITLES.get(package, package)} is not installed: pip install 'seqtune[{extra}]'")


def json_fault(error: ValueError | RecursionError) -> str:
    """Why a text is not JSON, in at most 100 characters."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    text = str(error)  # Python's message on long numbers gives advice to programmers
    return "a number has too many digits" if "set_int_max_str_digits" in text else text[:100]


def shown(value: object, longest: int = 40) -> str:
    """A value as Python writes it, for a message: at most `longest` characters, of which the last may be three dots.

    Python writes no number of more than 4300 digits, and a foreign type may fail to write itself: the size of the
    number and the name of the type stand for these.
    """
    try:
        text = repr(value)
        if not isinstance(value, str) or len(text) <= longest:
            return cut(text, longest)
        count = longest
        while len(text) > longest - len("...") and count:  # the quote is closed
            count -= 1
            text = repr(value[:count])
        return f"{text}..."
    except Exception:  # `__repr__` is anybody's code
        return f"<an int of {value.bit_length()} bits>" if isinstance(value, int) else f"<a {type(value).__name__}>"


def one_line(error: BaseException | str, longest: int = 300) -> str:
    """The message of an error in one line of at most `longest` characters, fit for a record and a terminal.

    An exception without a message gives the name of its type.
    """
    text = error if isinstance(error, str) else str(error) or type(error).__name__
    return cut(" ".join(printable(text).split()), longest)


def cut(text: str, longest: int) -> str:
    """The text in at most `longest` characters; three dots stand for what does not fit."""
    return text if len(text) <= longest else text[:max(0, longest - 3)] + "..."[:longest]


def printable(text: str) -> str:
    """The text with a space for each control character except tabs and line ends, and without lone surrogates.

    A control character in a foreign text could command a terminal; a lone surrogate cannot be written to a file.
    """
    return text.translate(_CONTROL).encode(errors="replace").decode()
