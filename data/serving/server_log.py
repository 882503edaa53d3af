"""Log of a server: the files that vLLM or SGLang looked for and did not find, as its warnings name them."""

from __future__ import annotations

import re
from pathlib import Path

from seqtune.errors import FormatError
from seqtune.kernels.files import read_bounded

from .table_file import PROJECTS, TableFile

LARGEST_LOG = 200_000_000  # bytes
MOST_FILES = 1000
_WARNING = re.compile(r"Using default (?:MoE(?: kernel)?|W8A8 Block (?:FP8|INT8) kernel) config\b"
                      r"|Down MoE config file not found")
_PATH = re.compile(r"[EN]=[0-9]+,[^\r\n'\"/\\]{1,200}?\.json")


def missing_files(path: Path, project: str) -> list[TableFile]:
    """The files that a project's log says it lacks, without repetitions.

    Only the last part of a path counts, and only if it is the name of such a file. Raises FormatError.
    """
    files: dict[TableFile, None] = {}
    others: dict[str, None] = {}
    for line in read_bounded(path, LARGEST_LOG).decode("utf-8", errors="replace").splitlines():
        warning = _WARNING.search(line)
        for name in _PATH.findall(line, warning.start()) if warning else ():
            file = TableFile.parse(name)
            if file.name(project) == name:
                files[file] = None
            else:
                others[name] = None
    if others:
        other = next(name for name in PROJECTS if name != project)
        raise FormatError(f"{path} names {next(iter(others))!r:.100}, as {other} spells it; use --format {other}")
    if not files:
        raise FormatError(f"{path} has no warning of a missing file ('Using default MoE config', 'Using default W8A8 "
                          "Block FP8 kernel config')")
    if len(files) > MOST_FILES:
        raise FormatError(f"{path} names {len(files)} files; at most {MOST_FILES} are written")
    return list(files)
