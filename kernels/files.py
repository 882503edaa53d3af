"""Files from outside and for others: bounded reading, so that a wrong name costs no memory, and atomic writing."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seqtune.errors import FormatError, SeqtuneError, one_line


def reason(error: OSError) -> str:
    """What the system says, in one line; Parquet's readers raise OSErrors of several lines."""
    return error.strerror or one_line(error, 200)


def read_bounded(path: Path, most: int, advice: str = "") -> bytes:
    """The content of a file of at most `most` bytes. Raises FormatError, with `advice` where it is larger."""
    try:
        with path.open("rb") as file:
            large = os.fstat(file.fileno()).st_size > most  # known before reading, except of a pipe
            content = b"" if large else file.read(most + 1)
    except OSError as error:
        raise FormatError(f"cannot read {path}: {reason(error)}") from None
    if large or len(content) > most:
        raise FormatError(f"{path} has more than {most // 1_000_000} MB{advice}")
    return content


@contextmanager
def replacing(path: str | Path, only_new: bool = False) -> Iterator[Path]:
    """Write a file whole or not at all: yields the path of a scratch file beside it, which then takes its place.

    A reader sees the old file or the new one, whenever the writer is killed. The new file has the permissions of the
    file that it replaces, else those that every new file has. A symbolic link stays, and its target is replaced.
    With `only_new`, a file that another process made in the meantime stays. Raises SeqtuneError for any OSError.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    scratch = _scratch_of(target)
    try:
        yield scratch
        _flush(scratch)
        if target.exists():
            scratch.chmod(target.stat().st_mode & 0o777)
        if only_new:
            _link(scratch, target)
        else:
            os.replace(scratch, target)
    except OSError as error:
        raise SeqtuneError(f"cannot write {path}: {reason(error)}") from None
    finally:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)


def write_whole(path: str | Path, text: str) -> None:
    """Write a text file atomically, in UTF-8. Raises SeqtuneError."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def check_writable(folder: Path) -> None:
    """Make a file in the folder and remove it again, before long work begins. Raises SeqtuneError where that fails."""
    scratch = _scratch_of(folder / "try")
    try:
        scratch.touch(exist_ok=False)
        scratch.unlink()
    except OSError as error:
        raise SeqtuneError(f"cannot write into {folder}: {reason(error)}") from None


def _scratch_of(target: Path) -> Path:
    """A name in the same folder that no other writer takes; cut, because a name has at most 255 bytes."""
    return target.with_name(f".{target.name[:40]}.{uuid.uuid4().hex}.new")


def _flush(path: Path) -> None:
    """Wait until the disk has the content, so that a power cut after the renaming cannot leave an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(scratch: Path, target: Path) -> None:
    """Give the scratch file its name unless the name is taken; file systems without hard links rename it."""
    with suppress(FileExistsError):
        try:
            os.link(scratch, target)
        except FileExistsError:
            raise
        except OSError:
            os.replace(scratch, target)
