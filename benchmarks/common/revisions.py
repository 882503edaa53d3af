"""Revisions: the sources of another version, for programs that compare versions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from seqtune.errors import MisuseError

HERE = Path(__file__).resolve().parents[2]  # the sources of this version


def checkout(revision: str, folder: Path) -> Path:
    """The sources of a git revision in a new folder, which is returned. Raises MisuseError."""
    packed = subprocess.run(["git", "-C", str(HERE), "archive", revision], capture_output=True, check=False)
    if packed.returncode:
        raise MisuseError(f"{revision!r:.60} is no git revision")
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder
