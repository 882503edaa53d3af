"""Outputs: the files of a dispatch, and how those of an earlier dispatch are recognised."""

from __future__ import annotations

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


def check_replaceable(folder: Path, prefix: str) -> None:
    """Check that files with these names, if there are any, are those of an earlier dispatch. Raises MisuseError."""
    check_prefix(prefix)
    for path in (folder / f"{prefix}{ending}" for ending in ENDINGS):
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


def write_files(folder: Path, prefix: str, dispatcher: Dispatcher) -> tuple[list[Path], list[str]]:
    """Write the dispatcher as JSON, C with a header of C++, and Python; return the paths, and notes.

    A language that cannot express it gets no file, but a note. Files of an earlier call are removed before.
    """
    folder.mkdir(exist_ok=True)
    json, header, source, templates, module, page = (folder / f"{prefix}{ending}" for ending in ENDINGS)
    for path in (json, header, source, templates, module, page):
        path.unlink(missing_ok=True)
    written, notes = [json], list[str]()
    for language, paths, texts in (
            ("C", (header, source, templates), lambda: (*c_file(dispatcher, prefix), cpp_file(dispatcher, prefix))),
            ("Python", (module,), lambda: (python_file(dispatcher),))):
        try:
            write_together(dict(zip(paths, texts(), strict=True)))
            written += paths
        except MisuseError as error:
            notes.append(f"no {language} file is written: {error}")
    dispatcher.save(json)
    return written, notes
