"""Format: the reader and the writer of one kind of file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

from ..dataset import Dataset

NAME = "[A-Za-z_][A-Za-z_0-9]*"  # pattern of a parameter's or key's name
Report = dict[str, Any]  # the user's report of a file, as flat JSON


@dataclass(frozen=True)
class ImportResult:
    """The result of reading files: one data set, a report of each file, and notes that the user should see."""

    data: Dataset
    reports: Sequence[Report]
    notes: tuple[str, ...] = ()


# What a writer may ask for beside its options (`Format.asks`); floors above this one answer. A Propose gives up to a
# number of configurations, best first, with the share of the best speed that each should reach (None: unknown).
Propose = Callable[[Problem, Device, int], Mapping[Configuration, float | None]]
Proposer = Callable[[str | Path | None], Propose]  # of a checkpoint; None: of the one that answers for the device
LearnedTables = Callable[[str | Path], Mapping[str, Sequence[str]]]  # of a checkpoint: rows by solver
# Of the JSON file of a dispatch: its device, and for each problem the member that its rule prefers among those that are
# proved valid (None: there is none).
Members = Callable[[str | Path, Sequence[Problem]], tuple[Device, Sequence[Configuration | None]]]
DriverFacts = Callable[[Device], Mapping[str, str | int]]  # what the driver reports; empty if the device is not here


def check_columns(path: Path, names: Iterable[str], needed: Iterable[str], kind: str) -> None:
    """Check that each needed column occurs once in a table that should be of this kind. Raises FormatError."""
    present = list(names)
    wrong = next((name for name in needed if present.count(name) != 1), None)
    if wrong is not None:
        raise FormatError(f"{path} is no {kind}: it has {present.count(wrong)} columns {wrong!r}, not one")


def report_of(path: Path, rows: int, skipped: Mapping[str, int]) -> Report:
    """The report of a file with this number of imported rows, and the numbers of the others by reason."""
    return {"path": str(path), "rows": rows, "skipped": dict(sorted(skipped.items()))}


def first_reason(reports: Sequence[Report]) -> str:
    """The first reason why rows of files were left out, in brackets for an error message; empty if none were."""
    return next((f" ({reason[:160]})" for report in reports for reason in report["skipped"]), "")


Reader = Callable[[Sequence[Path], Sequence[str | Device]], ImportResult]


def check_names(keys: Sequence[str]) -> None:
    """Check that the user's `--keys` are different names, as Python writes names. Raises MisuseError."""
    if len(set(keys)) < len(keys) or not all(re.fullmatch(NAME, key) for key in keys):
        raise MisuseError(f"--keys {','.join(keys)!r:.80} is not a list of different names")


@dataclass(frozen=True)
class Format:
    """A kind of file. `read` and `write` raise SeqtuneErrors of one line; `write` is atomic."""

    patterns: tuple[str, ...]  # names of its files in a folder
    read: Reader | None = None
    devices: int | None = 0  # the number of devices that may be given for reading; None: any number
    write: Callable[..., Report] | None = None  # takes a path and, as keywords, the options of the table and `asks`
    asks: tuple[str, ...] = ()  # more keywords of `write`: force, proposer, members, ...
    folder: bool = False  # whether `write` puts files into a folder, which may exist
    named: Callable[[Sequence[str]], Reader] | None = None  # the reader for files whose keys have these names
