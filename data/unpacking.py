"""Unpacking: plain, gzip and bz2 files from outside, read in bounded pieces, so that none can fill the memory."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from seqtune.errors import FormatError
from seqtune.kernels.files import reason

PIECE = 1 << 20  # bytes that are unpacked at a time
_PACKED: dict[bytes, tuple[Callable[[Any], Any], str]] = {
    b"BZh": (bz2.open, "bz2"), b"\x1f\x8b": (gzip.open, "gzip")}  # first bytes -> opener, name


def unpacked_pieces(path: Path, most_stored: int, most: int) -> Iterator[bytes]:
    """The content of a file in pieces, unpacked if it is packed, also if it consists of several streams.

    `most_stored` bounds the bytes on the disk, and `most` those of all pieces. Raises FormatError when a file exceeds
    its bound, is cut short or is damaged.
    """
    try:
        with path.open("rb") as file:
            if path.stat().st_size > most_stored:
                raise FormatError(f"{path} has more than {most_stored // 1_000_000} MB")
            yield from _pieces(path, file, most)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None


def _pieces(path: Path, file: BufferedReader, most: int) -> Iterator[bytes]:
    head = file.peek(3)
    opener, name = next((packed for first, packed in _PACKED.items() if head.startswith(first)), (_plain, ""))
    content = opener(file)
    size = 0
    while piece := _piece(path, content, name):
        size += len(piece)
        if size > most:
            verb = "unpacks to" if name else "has"
            raise FormatError(f"{path} {verb} more than {most // 1_000_000} MB")
        yield piece


def _plain(file: IO[bytes]) -> IO[bytes]:
    return file


def _piece(path: Path, content: Any, name: str) -> bytes:
    try:
        return bytes(content.read(PIECE))
    except EOFError:
        raise FormatError(f"{path} is cut short") from None
    except (OSError, zlib.error) as error:
        if not name:
            raise
        raise FormatError(f"{path} is no sound {name} file: {error}") from None


def unpacked(path: Path, most_stored: int, most: int) -> bytes:
    """The whole content of a file; see `unpacked_pieces`."""
    return b"".join(unpacked_pieces(path, most_stored, most))


def lines(pieces: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """The lines of a text that comes in pieces, without their ends; a line of more than `longest` bytes is cut."""
    begun = b""
    for piece in pieces:
        *whole, begun = (begun + piece).split(b"\n")
        yield from (line[:longest + 1] for line in whole)
        begun = begun[:longest + 1]
    if begun:
        yield begun
