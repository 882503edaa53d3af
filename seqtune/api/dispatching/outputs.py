"""Outputs: the files of a dispatch, and how those of an earlier dispatch are recognised."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from seqtune.kernels.files import read_bounded, write_together
from seqtune.predictor.c_source.public_names import check_prefix
from seqtune.predictor.dispatch.c_file import c_file
from seqtune.predictor.dispatch.cpp_file import cpp_file
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.python_file import python_file

from ...errors import FormatError, MisuseError

ENDINGS = (".json", ".h", ".c", ".hpp", ".py", ".html")
LARGEST = 20_000_000  # bytes of an earlier file
MARKS = (b"Made by seqtune dispatch.", b'{"format":"seqtune dispatcher"',
         b'<meta name="generator" content="seqtune dispatch">')
HEAD = 1000  # bytes of a file, within which one of the marks stands


def paths_of(folder: Path, prefix: str) -> tuple[Path, ...]:
    """The paths of all files of a dispatch: JSON, header and source of C, header of C++, Python, the page."""
    return tuple(folder / f"{prefix}{ending}" for ending in ENDINGS)


def check_replaceable(folder: Path, prefix: str) -> None:
    """Check the prefix, and that existing files with these names are an earlier dispatch's. Raises MisuseError."""
    check_prefix(prefix)
    for path in paths_of(folder, prefix):
        if path.exists() and not _is_ours(path):
            raise MisuseError(f"{path} was not written by seqtune dispatch, which would replace it; name another "
                              "folder, or move the file")


def _is_ours(path: Path) -> bool:
    """Whether an earlier dispatch wrote a file."""
    try:
        head = read_bounded(path, LARGEST, only_regular=True)[:HEAD]
        return any(mark in head for mark in MARKS)
    except FormatError:
        return False


def texts_of(folder: Path, prefix: str, dispatcher: Dispatcher) -> tuple[dict[Path, str], list[str]]:
    """The dispatcher as JSON, C with a header of C++, and Python, by path; and notes.

    A language that cannot express it gets no file, but a note.
    """
    json, header, source, templates, module, _ = paths_of(folder, prefix)
    texts, notes = {json: dispatcher.text()}, list[str]()
    for language, paths, made in (
            ("C", (header, source, templates), lambda: (*c_file(dispatcher, prefix), cpp_file(dispatcher, prefix))),
            ("Python", (module,), lambda: (python_file(dispatcher),))):
        try:
            texts |= dict(zip(paths, made(), strict=True))
        except MisuseError as error:
            notes.append(f"no {language} file is written: {error}")
    return texts, notes


def write_files(folder: Path, prefix: str, texts: Mapping[Path, str]) -> None:
    """Write all files as `write_together` does, then remove those of an earlier call that this one does not have."""
    write_together(texts)
    for path in paths_of(folder, prefix):
        if path not in texts:
            path.unlink(missing_ok=True)
