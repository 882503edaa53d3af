"""aiter's tuned products: its CSV files, and a Parquet table of several of them.

A row is a product, the GPU (`gfx` and `cu_num`), the name of the kernel that won, its slices of k and its time (`us`).
The kind of the product stands in the file's name (`a8w8_blockscale_tuned_gemm.csv`), or in a column `file`. Rows have
the status `chosen`: of several winners of a product, in all files, the fastest counts, and its time compares with
nothing else. A row without a time has won nothing. The kernels that a file names become the space of their kind of
product, on the architectures for which it names them; so files are best imported together.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from seqtune.data.csv_file import read_csv
from seqtune.data.formats.declared_rows import DeclaredRow, imported, in_their_spaces
from seqtune.data.formats.format import Format, ImportResult, check_columns, first_reason, report_of
from seqtune.data.parquet_file import read_all
from seqtune.errors import FormatError, ProblemError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Setting
from seqtune.kernels.problem import Problem

from .kernels.product import kind_of, problem_of, whole
from .kernels.table import BACKEND, family_of, settings_of

LARGEST_FILE = 50_000_000  # bytes; the largest one of aiter has 1.5 million
MOST_ROWS = 1_000_000
LONGEST = 1e12  # microseconds; others are not times
NEEDED = ("compute_units", "m", "n", "k", "split_k", "kernel_name")
TIME = "microseconds"
_COLUMNS = {"cu_num": "compute_units", "splitk": "split_k", "kernelname": "kernel_name", "b": "batch", "us": TIME}
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
_ARCHITECTURES = {80: "gfx942", 304: "gfx942", 256: "gfx950"}  # of older files, which tell the compute units alone

_Row = Mapping[str, str]


class _Choice(NamedTuple):
    """The winner of a product on a GPU."""

    device: Device
    problem: Problem
    kind: str  # of product
    settings: Mapping[str, Setting]
    microseconds: float


def _read(files: Sequence[Path], devices: Sequence[str | Device]) -> ImportResult:
    by_file: list[list[_Choice]] = []
    skipped: list[Counter[str]] = [Counter() for _ in files]
    for file, reasons in zip(files, skipped, strict=True):
        rows = _table(file) if file.suffix == ".parquet" else _csv(file)
        by_file.append([choice for row in rows if (choice := _choice(row, reasons)) is not None])
    by_kind: defaultdict[str, list[tuple[str, Mapping[str, Setting]]]] = defaultdict(list)
    for choice in chain.from_iterable(by_file):
        by_kind[choice.kind].append((choice.device.architecture, choice.settings))
    kernels = {kind: family_of(kind, chosen) for kind, chosen in by_kind.items()}
    valid = [in_their_spaces([DeclaredRow(choice.device, choice.problem, kernels[choice.kind], choice.settings)
                              for choice in choices], reasons)
             for choices, reasons in zip(_fastest(by_file, skipped), skipped, strict=True)]
    reports = [report_of(file, len(rows), reasons) for file, rows, reasons in zip(files, valid, skipped, strict=True)]
    if not kernels:
        raise FormatError(f"{files[0]} holds no tuned product of aiter that is known here{first_reason(reports)}")
    source = "aiter: " + ", ".join(file.name for file in files)
    return imported([*chain.from_iterable(valid)], source, reports, kernels.values())


AITER = Format(("*tuned*gemm*.csv", "*.parquet"), read=_read)


def _fastest(by_file: Sequence[Sequence[_Choice]], skipped: Sequence[Counter[str]]) -> list[list[_Choice]]:
    """The choices of each file without those that are slower than another of their product; these are counted."""
    best: dict[tuple[str, str, str], _Choice] = {}
    for choice in chain.from_iterable(by_file):
        key = choice.device.key, choice.problem.key, choice.kind
        if key not in best or choice.microseconds < best[key].microseconds:
            best[key] = choice
    winners = set(map(id, best.values()))
    for choices, reasons in zip(by_file, skipped, strict=True):
        if slower := sum(id(choice) not in winners for choice in choices):
            reasons["another row of the same product is as fast, or faster"] += slower
    return [[choice for choice in choices if id(choice) in winners] for choices in by_file]


def _csv(path: Path) -> Iterator[_Row]:
    """The rows of a CSV file. Raises FormatError."""
    written, lines = read_csv(path, LARGEST_FILE)
    names = _names(path, written)
    for number, values in lines:
        if len(values) != len(names):
            raise FormatError(f"{path}: line {number} has {len(values)} values for {len(names)} columns")
        yield {"file": path.name, **dict(zip(names, map(str.strip, values), strict=True))}


def _table(path: Path) -> Iterator[_Row]:
    """The rows of a Parquet table. Raises FormatError."""
    written, columns = read_all(path, MOST_ROWS)
    names = _names(path, written)
    for values in zip(*columns, strict=True):
        yield {"file": path.name, **{name: "" if value is None else str(value)
                                     for name, value in zip(names, values, strict=True)}}


def _names(path: Path, written: Sequence[str]) -> list[str]:
    """The columns' names in our words. Raises FormatError if one is missing or occurs twice."""
    names = [_COLUMNS.get(name.strip().lower(), name.strip().lower()) for name in written]
    check_columns(path, names, NEEDED, "table of aiter's tuned products")
    return names


def _choice(row: _Row, skipped: Counter[str]) -> _Choice | None:
    """The choice of a row; None, with the reason counted, if it is not understood."""
    try:
        kind = kind_of(row["file"])
        units = whole(row, "compute_units")
        architecture = row.get("gfx") or _ARCHITECTURES.get(units, "unknown")
        device = _gpu(architecture, units)
        problem = problem_of(row["file"], row)
        settings = settings_of(row["kernel_name"], whole(row, "split_k"))
        return _Choice(device, problem, kind, settings, _time(row))
    except (FormatError, ProblemError) as error:
        skipped[str(error).partition(" (found")[0][:160]] += 1
        return None


def _time(row: _Row) -> float:
    """The microseconds of a row; infinite in a table without times. Raises FormatError for a row without one."""
    text = row.get(TIME)
    if text is None:
        return math.inf
    time = float(text) if _NUMBER.fullmatch(text) else 0.0
    if not 0 < time < LONGEST:
        raise FormatError("a row without a time")
    return time


@cache
def _gpu(architecture: str, units: int) -> Device:
    """The GPU of this architecture and size. Raises FormatError."""
    device = described(BACKEND, f"{architecture}_{units}"[:40])
    if device is None:
        raise FormatError(f"no facts are known here of a {architecture[:20]} with {units} compute units")
    return device
