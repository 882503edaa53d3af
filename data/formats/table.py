"""Table of formats: the files that `seqtune import` and `seqtune export` know, by name.

A new format is one file with a `Format` and one line here. The module of a format is imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from seqtune.errors import MisuseError
from seqtune.kernels.lookup import resolve

if TYPE_CHECKING:
    from .format import Format


class FormatEntry(NamedTuple):
    """One format: `module:attribute` of its Format, the meaning of its files, its abilities, and its files' endings."""

    reference: str
    meaning: str
    can: str  # "read", "write" or "read and write"
    endings: tuple[str, ...] = ()  # endings of written files; empty: there is no usual one


_HERE = "seqtune.data.formats"
FORMATS: Mapping[str, FormatEntry] = {
    "parquet": FormatEntry(f"{_HERE}.dataset_file:PARQUET", "a data set of seqtune", "read and write", (".parquet",)),
    "t4": FormatEntry(f"{_HERE}.t4:T4", "T4 results (.json, .json.gz)", "read and write", (".json",)),
    "kernel-tuner": FormatEntry(f"{_HERE}.kernel_tuner:KERNEL_TUNER", "caches of Kernel Tuner (.json, .json.gz)",
                                "read"),
    "triton": FormatEntry(f"{_HERE}.triton_cache:TRITON", "results of triton.autotune (.autotune.json)", "read"),
    "recorded": FormatEntry(f"{_HERE}.recorded_spaces:RECORDED", "recorded spaces (Parquet with a spaces.json)",
                            "read"),
    "miopen": FormatEntry(f"{_HERE}.miopen_import:MIOPEN", "MIOpen's perf-dbs and find-dbs, compressed or not", "read"),
    "miopen-text": FormatEntry(f"{_HERE}.miopen_export:TEXT", "MIOpen's user perf-db as text", "read and write"),
    "miopen-udb": FormatEntry(f"{_HERE}.miopen_export:UDB", "MIOpen's user perf-db as SQLite", "read and write"),
    "miopen-override": FormatEntry(f"{_HERE}.miopen_export:OVERRIDE", "a value of MIOPEN_DEBUG_PERFDB_OVERRIDE",
                                   "write"),
    "vllm": FormatEntry(f"{_HERE}.served_tables:VLLM", "a folder of vLLM's tuned Triton settings", "read and write"),
    "sglang": FormatEntry(f"{_HERE}.served_tables:SGLANG", "a folder of SGLang's tuned Triton settings",
                          "read and write"),
    "gemlite": FormatEntry(f"{_HERE}.gemlite_configs:GEMLITE", "gemlite's tuned configurations (.json, .parquet)",
                           "read"),
    "aiter": FormatEntry(f"{_HERE}.aiter_tuned:AITER", "aiter's tuned products (.csv, .parquet)", "read"),
    "helion-csv": FormatEntry(f"{_HERE}.helion_log:HELION", "Helion's log of a search (.csv)", "read"),
    "clblast": FormatEntry(f"{_HERE}.clblast_export:JSON", "a folder of JSON files as CLBlast's tuners write", "write"),
    "clblast-cpp": FormatEntry(f"{_HERE}.clblast_export:CPP", "rows of CLBlast's C++ database", "write", (".hpp",)),
}


def names(ability: str) -> list[str]:
    """The names of the formats with an ability, `read` or `write`."""
    return [name for name, entry in FORMATS.items() if ability in entry.can.split(" and ")]


def described(ability: str) -> str:
    """The formats with an ability, `read` or `write`, and their meanings, as one line for a help text."""
    return "; ".join(f"{name}: {FORMATS[name].meaning}" for name in names(ability))


def format_of(name: str, ability: str) -> Format:
    """The format of this name. Raises MisuseError if there is none, or if it lacks the ability `read` or `write`."""
    if name not in names(ability):
        problem = f"{name} cannot be {'read' if ability == 'read' else 'written'}" if name in FORMATS else (
            f"no format {name!r:.40}")
        raise MisuseError(f"{problem}; there are {', '.join(names(ability))}")
    entry: Format = resolve(FORMATS[name].reference)  # type: ignore[assignment]
    return entry


def find_files(name: str, paths: Sequence[str | Path]) -> list[Path]:
    """The files of a format at these paths of files and folders. Raises MisuseError if there is none."""
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
