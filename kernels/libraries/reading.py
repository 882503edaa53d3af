"""Reading: makes a Library from a TOML file, from a folder that has one, or from a T1 file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, one_line

from .declared_library import declared_library, parse_document
from .fault import DocumentFault, KeyPath
from .files import read_regular
from .library import Library
from .positions import Positions
from .t1.file import t1_content, t1_document

LARGEST_DOCUMENT = 250_000  # bytes
MOST_DOTS = 100  # dots in a line: tomllib's time grows with the square of the parts of a dotted key
_DIGITS = re.compile(r"[0-9_]{4000}")
FILE_NAME = "library.toml"  # the file that is read if a folder is named


def read_library(path: str | Path, allowed: bool = False) -> Library:
    """Read a library from a TOML file, the `library.toml` of a folder, or a T1 file (.json). Raises FormatError.

    Its code and its commands run only if they are `allowed`.
    """
    file = Path(path)
    file = file / FILE_NAME if file.is_dir() else file
    text = _text(file)
    if file.suffix.lower() == ".json":
        return _read_t1(file, text, allowed)
    table = _table(file, text)
    positions = Positions(text, table)

    def locate(path: KeyPath) -> str:
        line, column = positions.at(path)
        return f"{file}:{line}:{column}"

    try:
        return declared_library(parse_document(table), file.resolve().parent, origin=str(file), own_modules=True,
                                allowed=allowed, locate=locate)
    except DocumentFault as fault:
        raise FormatError(f"{locate(fault.path)}: {fault}") from None


def _read_t1(file: Path, text: str, allowed: bool) -> Library:
    """The library of a T1 file. Raises FormatError with the keys that lead to a mistake."""
    try:
        document = parse_document(t1_document(t1_content(text), file.stem))
        return declared_library(document, file.resolve().parent, origin=str(file), allowed=allowed)
    except FormatError as error:
        raise FormatError(f"{file}: {error}") from None


def _text(file: Path) -> str:
    """The text of a file, with \\n at the end of every line. Raises FormatError."""
    content = read_regular(file, LARGEST_DOCUMENT)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FormatError(f"{file}:{line}:1: not UTF-8 text (byte {error.start})") from None


def _table(file: Path, text: str) -> dict[str, Any]:
    """The content of a TOML text. Raises FormatError with line and column."""
    for number, words in enumerate(text.split("\n"), 1):
        if words.count(".") > MOST_DOTS:
            raise FormatError(f"{file}:{number}:1: the line has more than {MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        match = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        line, column = (match[1], match[2]) if match is not None and match[1] else (text.count("\n") + 1, 1)
        raise FormatError(f"{file}:{line}:{column}: not TOML: {one_line(message[:match.start() if match else 200])}"
                          ) from None
    except RecursionError:
        raise FormatError(f"{file}:1:1: not TOML: nested too deeply") from None
    except ValueError:  # Python reads at most 4300 digits
        line = next((at for at, words in enumerate(text.split("\n"), 1) if _DIGITS.search(words)), 1)
        raise FormatError(f"{file}:{line}:1: not TOML: a number has too many digits") from None
