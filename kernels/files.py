"""Reading files from outside: bounded, so that a wrong name costs no memory."""

from __future__ import annotations

from pathlib import Path

from seqtune.errors import FormatError


def read_bounded(path: Path, most: int, advice: str = "") -> bytes:
    """The content of a file of at most `most` bytes. Raises FormatError, with `advice` where it is larger."""
    try:
        with path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > most:
        raise FormatError(f"{path} has more than {most // 1_000_000} MB{advice}")
    return content
