"""Reading of libraries from files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from seqtune.errors import FormatError, one_line

from .declared_library import declared_library, parse_document
from .fault import DocumentFault
from .library import Library
from .library_files import read_regular

LARGEST_DOCUMENT = 1_000_000  # bytes
FILE_NAME = "library.toml"  # in a folder that is named instead of a file


def read_library(path: str | Path, allowed: bool = False) -> Library:
    """Read a library from a TOML file, or from the `library.toml` of a folder. Raises FormatError with line and column.

    Its code and its commands run only if they are `allowed`.
    """
    file = Path(path)
    file = file / FILE_NAME if file.is_dir() else file
    content = read_regular(file, LARGEST_DOCUMENT)
    try:
        table = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FormatError(f"{file} is not UTF-8 text (byte {error.start})") from None
    except tomllib.TOMLDecodeError as error:
        raise FormatError(f"{file}: not TOML: {one_line(error)}") from None
    except (ValueError, RecursionError) as error:  # a number of too many digits; nested too deeply
        raise FormatError(f"{file}: not TOML: {one_line(error, 100)}") from None
    try:
        return declared_library(parse_document(table), file.resolve().parent, origin=str(file), own_modules=True,
                                allowed=allowed)
    except DocumentFault as fault:
        raise FormatError(f"{file}: {fault}") from None
