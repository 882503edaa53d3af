"""Table of formats: other tools' files and our own, by the name that `seqtune import` and `seqtune export` know.

A new format is one file with a `Format` and one line here. The modules are loaded when a format is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqtune.errors import MisuseError
from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from .format import Format


class Entry(NamedTuple):
    """One format: the Format's `module:attribute`, what its files are, and what can be done with them."""

    reference: str
    meaning: str
    can: str  # "read", "write" or "read and write"


_HERE = "seqtune.data.formats"
FORMATS: Mapping[str, Entry] = {
    "parquet": Entry(f"{_HERE}.dataset_file:PARQUET", "a data set of seqtune", "read and write"),
    "t4": Entry(f"{_HERE}.t4:T4", "T4 results (.json, .json.gz)", "read and write"),
    "kernel-tuner": Entry(f"{_HERE}.kernel_tuner:KERNEL_TUNER", "caches of Kernel Tuner (.json, .json.gz)", "read"),
    "recorded": Entry(f"{_HERE}.recorded_spaces:RECORDED", "recorded spaces (Parquet with a spaces.json)", "read"),
    "miopen": Entry(f"{_HERE}.miopen_import:MIOPEN", "MIOpen's perf-dbs and find-dbs, compressed or not", "read"),
    "miopen-text": Entry(f"{_HERE}.miopen_export:TEXT", "MIOpen's user perf-db as text", "read and write"),
    "miopen-udb": Entry(f"{_HERE}.miopen_export:UDB", "MIOpen's user perf-db as SQLite", "read and write"),
    "miopen-override": Entry(f"{_HERE}.miopen_export:OVERRIDE", "a value of MIOPEN_DEBUG_PERFDB_OVERRIDE", "write"),
}


def names(ability: str) -> list[str]:
    """The formats that can be `read` or `write` (written)."""
    return [name for name, entry in FORMATS.items() if ability in entry.can.split(" and ")]


def described(ability: str) -> str:
    """These formats with their meanings, for a help text."""
    return "; ".join(f"{name}: {FORMATS[name].meaning}" for name in names(ability))


def format_of(name: str, ability: str) -> Format:
    """The format of that name. Raises MisuseError where there is none, or where it cannot be read or written."""
    if name not in names(ability):
        problem = f"{name} cannot be {'read' if ability == 'read' else 'written'}" if name in FORMATS else (
            f"no format {name!r:.40}")
        raise MisuseError(f"{problem}; there are {', '.join(names(ability))}")
    found: Format = resolve(FORMATS[name].reference)  # type: ignore[assignment]
    return found


def find_files(name: str, paths: Sequence[str | Path]) -> list[Path]:
    """The files at these paths, which are files or folders of them. Raises MisuseError where there is none."""
    patterns = format_of(name, "read").patterns
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.exists():
            raise MisuseError(f"no such file: {path}")
        if path.suffix == ".parquet" and not any(pattern.endswith(".parquet") for pattern in patterns):
            raise MisuseError(f"{path} is a data set; {name} reads {FORMATS[name].meaning}")
        files += sorted({file for pattern in patterns for file in path.glob(pattern)}) if path.is_dir() else [path]
    if not files:
        raise MisuseError(f"no file of {name} in {paths[0]}" if paths else f"name a file of {name}")
    return files
