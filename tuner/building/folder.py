"""Folder: writes the files of built kernels to a new folder, whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from seqtune.errors import MisuseError
from seqtune.kernels.files import cannot_write, check_length, check_path, new_folder

from .chosen import Files


def check_free(folder: Path) -> None:
    """Check that a folder does not exist yet, or is empty, and that its place is a folder.

    A symbolic link stands for its target. Raises MisuseError, SeqtuneError.
    """
    if folder.name in ("", ".."):
        raise MisuseError(f"{'the current folder' if folder == Path() else folder} cannot be written, because the new "
                          "folder takes its place whole; name a new folder in it (--out NAME)")
    check_length(folder)
    check_path("out", folder)
    try:
        taken = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
        place = next(parent for parent in folder.absolute().parents if parent.exists())
        is_folder = place.is_dir()
    except OSError as error:
        raise cannot_write(folder, error) from None
    if taken:
        raise MisuseError(f"{folder} exists and is not an empty folder; choose another one")
    if not is_folder:
        raise MisuseError(f"cannot write {folder}: {place} is not a folder; choose another place (--out FOLDER)")


def write_folder(files: Files, folder: Path) -> None:
    """Write the files to a folder that does not exist yet, or is empty.

    Raises MisuseError if the folder holds files or its place takes none, SeqtuneError if the disk is full.
    """
    check_free(folder)
    folder = Path(os.path.realpath(folder))  # a link is kept
    new = [parent for parent in folder.parents if not parent.exists()]  # the innermost first
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with new_folder(folder) as part:
            for path, content in files.items():
                (part / path).parent.mkdir(parents=True, exist_ok=True)
                (part / path).write_bytes(content)
    except OSError as error:
        raise cannot_write(folder, error) from None
    finally:
        for parent in new:  # they are left only where the folder is in them
            with suppress(OSError):
                parent.rmdir()
