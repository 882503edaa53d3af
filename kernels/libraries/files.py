"""Files of a library: only regular files of bounded size inside its folder are read."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from seqtune.errors import FormatError

from ..files import reason

LARGEST_SOURCE = 1_000_000  # bytes
_LOOP = "a link leads to itself"


def read_regular(path: Path, most: int) -> bytes:
    """Read a regular file of at most `most` bytes; devices and pipes are refused. Raises FormatError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # opening a pipe does not wait
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise FormatError(f"{path} is not a regular file")
            if status.st_size > most:
                raise FormatError(f"{path} has {status.st_size} bytes; at most {most} are read")
            content = file.read(most + 1)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    except ValueError:  # a NUL in the name
        raise FormatError(f"{str(path)!r:.80} is no path") from None
    if len(content) > most:
        raise FormatError(f"{path} has more than {most} bytes")
    return content


def inside(folder: Path | None, name: str) -> Path:
    """The path of a file that a library names, which must lie inside its folder after resolving links.

    Raises FormatError.
    """
    path = _resolved(folder, name)
    if not path.exists():
        raise FormatError(f"there is no {name!r:.80} in the library's folder")
    return path


def exists_inside(folder: Path | None, name: str) -> bool:
    """Whether the folder has such a file. Raises FormatError if the path leads out of it."""
    return _resolved(folder, name).exists()


def is_file_inside(folder: Path, name: str) -> bool:
    """Whether a path leads to a file in the folder; false for one that leads out of it."""
    try:
        return _resolved(folder, name).is_file()
    except FormatError:
        return False


def _resolved(folder: Path | None, name: str) -> Path:
    """The path after resolving links. Raises FormatError if it is outside the folder."""
    if folder is None:
        raise FormatError(f"the library has no folder, so it cannot name the file {name!r:.80}")
    if not name or "\0" in name or os.path.isabs(name):
        raise FormatError(f"{name!r:.80} is no path inside the library's folder")
    try:
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise FormatError(f"{name!r:.80} leads out of the library's folder")
        with suppress(FileNotFoundError, NotADirectoryError):
            path.stat()
    except RuntimeError:  # before Python 3.13, resolve finds a link that leads to itself
        raise FormatError(f"cannot find {name!r:.80}: {_LOOP}") from None
    except OSError as error:  # for example, a name that is too long
        cause = _LOOP if error.errno == errno.ELOOP else reason(error)
        raise FormatError(f"cannot find {name!r:.80}: {cause}") from None
    return path


def source_text(folder: Path | None, name: str) -> str:
    """The text of a source file of a library. Raises FormatError."""
    content = read_regular(inside(folder, name), LARGEST_SOURCE)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{name} is not UTF-8 text (byte {error.start})") from None
    if "\0" in text:
        raise FormatError(f"{name} has a NUL character")
    return text
