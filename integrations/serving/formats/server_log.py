"""Log of a server: the files that vLLM or SGLang did not find, from the warnings in its log."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

from seqtune.data.gpu_names import gpu_of
from seqtune.errors import DeviceError, FormatError
from seqtune.kernels.files import read_bounded

from .table_file import PROJECTS, TableFile

LARGEST_LOG = 200_000_000  # bytes
MOST_FILES = 1000
_WARNING = re.compile(r"Using default (?:MoE(?: kernel)?|W8A8 Block (?:FP8|INT8) kernel) config\b"
                      r"|Down MoE config file not found")
_PATH = re.compile(r"[EN]=[0-9]+,[^\r\n'\"/\\]{1,200}?\.json")


def missing_files(path: Path, project: str) -> tuple[list[TableFile], dict[str, str]]:
    """The files that a project's log says it lacks, without repetitions; the names that are left out, with the reason.

    Only the last part of a path counts. A name with an unknown GPU or dtype is left out. Raises FormatError.
    """
    files: dict[TableFile, None] = {}
    others: dict[str, None] = {}
    left_out: dict[str, str] = {}
    for name in _names(_text(path)):
        try:
            file = TableFile.parse(name)
            gpu_of(file.device)
        except (DeviceError, FormatError) as error:
            left_out[name] = "a GPU without known facts" if isinstance(error, DeviceError) else (
                "a dtype or sizes that are not known here")
            continue
        if file.name(project) == name:
            files[file] = None
        else:
            others[name] = None
    if others:
        other = next(name for name in PROJECTS if name != project)
        raise FormatError(f"{path} names {next(iter(others))!r:.100}, as {other} spells it; use "
                          f"`seqtune serve-files {other}`")
    if not files and left_out:
        name, reason = next(iter(left_out.items()))
        raise FormatError(f"{path} names no file that can be written; {name!r:.160} has {reason}")
    if not files:
        raise FormatError(f"{path} has no warning of a missing file ('Using default MoE config', 'Using default W8A8 "
                          "Block FP8 kernel config')")
    if len(files) + len(left_out) > MOST_FILES:
        raise FormatError(f"{path} names {len(files) + len(left_out)} files; at most {MOST_FILES} are written")
    return list(files), left_out


def _text(path: Path) -> str:
    """The text of a log; PowerShell's redirection writes UTF-16."""
    content = read_bounded(path, LARGEST_LOG)
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8", errors="replace")


def _names(text: str) -> Iterator[str]:
    """The names of files in a log's warnings."""
    for line in text.splitlines():
        if warning := _WARNING.search(line):
            yield from _PATH.findall(line, warning.start())
