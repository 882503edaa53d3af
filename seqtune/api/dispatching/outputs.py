"""Outputs: the names of the files of a dispatch, and how a file of an earlier dispatch is recognised."""

from __future__ import annotations

from pathlib import Path

from seqtune.kernels.files import read_bounded

from ...errors import FormatError, MisuseError

NAME = "dispatch"  # of the files, and the prefix of the names in C
ENDINGS = (".json", ".h", ".c", ".py", ".html")
LARGEST = 20_000_000  # bytes of an earlier file
MARK = "seqtune dispatch"  # stands in each of the files


def output_paths(folder: Path) -> dict[str, Path]:
    """The paths of the files by ending; that of the page is the last."""
    return {ending: folder / f"{NAME}{ending}" for ending in ENDINGS}


def check_replaceable(folder: Path) -> None:
    """Check that no file with these names was made by anybody else than an earlier dispatch. Raises MisuseError."""
    for path in output_paths(folder).values():
        if path.exists() and not _is_ours(path):
            raise MisuseError(f"{path} was not written by seqtune dispatch, which would replace it; name another "
                              "folder, or move the file")


def _is_ours(path: Path) -> bool:
    try:
        text = read_bounded(path, LARGEST, only_regular=True).decode(errors="replace")
    except FormatError:
        return False
    return MARK in " ".join(text.replace("*", " ").split())  # a comment may break the line between the words
