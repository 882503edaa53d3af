"""Format: how one kind of file is read into a data set, and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seqtune.kernels.device import Device
from seqtune.kernels.problem import Problem

from ..dataset import Dataset

Report = dict[str, Any]  # what a user reads of a file: flat, as JSON


@dataclass(frozen=True)
class Reading:
    """What was read of some files: one data set, a report of each file, and notes that should not be missed."""

    data: Dataset
    reports: Sequence[Report]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExportRequest:
    """Where the content of an export comes from, and which part of it is wanted."""

    journal: Path | None = None  # exists, where neither `data` nor `predictions` is given
    data: Path | None = None  # a data set
    predictions: Path | None = None  # what `predict --json` printed
    device: str | Device | None = None
    problem: Problem | None = None
    hold_out: tuple[str, ...] = ()  # problem sets that no model may learn from
    tables: Callable[[], Mapping[str, Sequence[str]]] = field(default=dict)  # a checkpoint's, of rows by solver


@dataclass(frozen=True)
class Format:
    """A kind of file. `read` and `write` raise SeqtuneErrors of one line; `write` is atomic."""

    patterns: tuple[str, ...]  # of its files in a folder
    read: Callable[[Sequence[Path], Sequence[str | Device]], Reading] | None = None
    devices: int | None = 0  # how many devices may be named for reading; None: any number
    write: Callable[[ExportRequest, Path], Report] | None = None
    takes: tuple[str, ...] = ()  # the parts of an ExportRequest that `write` looks at
