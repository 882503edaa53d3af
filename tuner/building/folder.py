"""Folder: writes the files of built kernels to a new folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from seqtune.errors import MisuseError, one_line

from .chosen import Files


def check_free(folder: Path) -> None:
    """Check that a folder does not exist yet, or is empty, and that its place is a folder. Raises MisuseError."""
    if folder.name in ("", ".."):
        raise MisuseError(f"{'the current folder' if folder == Path() else folder} cannot be written, because the new "
                          "folder takes its place whole; name a new folder in it (--out NAME)")
    try:
        taken = folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir())))
        place = next(parent for parent in folder.absolute().parents if parent.exists())
        is_folder = place.is_dir()
    except (OSError, ValueError) as error:  # a name too long, or with a NUL
        raise _unwritable(folder, error) from None
    if taken:
        raise MisuseError(f"{folder} exists and is not an empty folder; choose another one")
    if not is_folder:
        raise MisuseError(f"{folder} cannot be written: {place} is not a folder; choose another place (--out FOLDER)")


def write_folder(files: Files, folder: Path) -> None:
    """Write the files to a folder that does not exist yet, or is empty.

    They are written to a folder beside it, which then takes its name, so that nothing is ever half-written. Raises
    MisuseError if the folder holds files or cannot be written.
    """
    check_free(folder)
    new = [parent for parent in folder.parents if not parent.exists()]  # the innermost first
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=".seqtune-", dir=folder.parent))  # short: the folder's name may be long
        try:
            for path, content in files.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                (part / path).write_bytes(content)
            part.chmod(0o777 & ~_umask())
            os.replace(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from None
    finally:
        for parent in new:  # they are left only where the folder is in them
            with suppress(OSError):
                parent.rmdir()


def _unwritable(folder: Path, error: Exception) -> MisuseError:
    """The error of a place that takes no folder."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
    if isinstance(error, FileNotFoundError):  # all parents exist: only a place such as /proc answers so
        reason = f"{folder.parent} takes no new files"
    return MisuseError(f"{str(folder)!r:.100} cannot be written: {reason}; choose another place (--out FOLDER)")


def _umask() -> int:
    """The bits that this process takes from the rights of new files."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
