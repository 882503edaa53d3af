"""aiter's tuned products: its CSV files, and a Parquet table of several of them.

A row is a product, the GPU (`gfx` and `cu_num`), the name of the kernel that won, its slices of k and its time (`us`).
The kind of the product stands in the file's name (`a8w8_blockscale_tuned_gemm.csv`), or in a column `file`. Rows have
the status `chosen`: of several winners of a product, in all files, the fastest counts, and its time compares with
nothing else. A row without a time has won nothing. The kernels that a file names become the space of their kind of
product, on the architectures for which it names them; so files are best imported together.

Written files have no times, which no data set keeps of choices. aiter finds the kernels of some kinds of product by
their names, and those of the others by numbers that change between its versions; of these nothing is written.
"""

from __future__ import annotations

import csv
import io
import math
import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from seqtune.data.csv_file import read_csv
from seqtune.data.dataset import Dataset, configuration
from seqtune.data.formats.declared_rows import DeclaredRow, imported, in_their_spaces
from seqtune.data.formats.format import Format, ImportResult, Members, Report, check_columns, first_reason, report_of
from seqtune.data.parquet_file import read_all
from seqtune.data.record import Status
from seqtune.errors import FormatError, MisuseError, ProblemError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.files import write_together
from seqtune.kernels.kernel import Configuration, Setting
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import weighed_set

from .kernels.name import name_of
from .kernels.product import OPERATION, kind_of, problem_of, whole
from .kernels.table import BACKEND, SPLIT_K, family_of, settings_of

LARGEST_FILE = 50_000_000  # bytes; the largest one of aiter has 1.5 million
MOST_ROWS = 1_000_000
LONGEST = 1e12  # microseconds; others are not times
NEEDED = ("compute_units", "m", "n", "k", "split_k", "kernel_name")
TIME = "microseconds"
_COLUMNS = {"cu_num": "compute_units", "splitk": "split_k", "kernelname": "kernel_name", "b": "batch", "us": TIME}
_NUMBER = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,2})?", re.ASCII)
# Kinds of product whose kernels aiter finds by name -> the variable that names the file to aiter
_BY_NAME = {"a4w4_blockscale": "AITER_CONFIG_GEMM_A4W4", "a8w8_blockscale": "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE",
            "a8w8_blockscale_bpreshuffle": "AITER_CONFIG_GEMM_A8W8_BLOCKSCALE_BPRESHUFFLE"}
_WRITTEN = ("gfx", "cu_num", "M", "N", "K", "libtype", "splitK", "kernelName")
_LIBRARIES = {"_ZN": "asm", "flydsl_": "flydsl", "opus_": "opus"}  # by the beginning of a kernel's name
_NOTE = ("name the file alone: aiter takes it instead of its own, and where aiter merges files, rows without times win "
         "over measured ones")
_ARCHITECTURES = {80: "gfx942", 304: "gfx942", 256: "gfx950"}  # of older files, which tell the compute units alone

_Row = Mapping[str, str]
_Product = tuple[Device, Problem]


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


def _write(out: Path, *, data: Path | None, checkpoint: str | Path | None, shapes: tuple[str, ...], force: bool,
           members: Members) -> Report:
    """Write choices as a file for each kind of product: those of a data set, and a dispatch's for the other shapes."""
    listed = dict.fromkeys(line.problem for source in shapes for line in weighed_set(source, OPERATION)
                           if line.problem.type == OPERATION)
    if (data is None and checkpoint is None) or (checkpoint is not None and not listed):
        raise MisuseError("name a data set of aiter's choices (--data), or a dispatch and shapes of "
                          f"{OPERATION} (--checkpoint, --shapes)")
    chosen: dict[_Product, Configuration | None] = {}
    if checkpoint is not None:
        gpu, picks = members(checkpoint, [*listed])
        chosen.update(((gpu, problem), pick) for problem, pick in zip(listed, picks, strict=True))
    if data is not None:
        chosen |= {key: choice for key, choice in _recorded(Dataset.read(data)).items()
                   if not listed or key[1] in listed}
    files: defaultdict[str, list[Mapping[str, object]]] = defaultdict(list)
    left_out = Counter[str]()
    if missing := len(listed.keys() - {problem for _, problem in chosen}):
        left_out["the data have no choice of aiter's for the shape"] = missing
    for (device, problem), choice in chosen.items():
        try:
            name, cells = _line(device, problem, choice)
            files[name].append(cells)
        except FormatError as error:
            left_out[str(error)] += 1
    reasons = [{"rows": count, "reason": reason} for reason, count in left_out.items()]
    if not files:
        raise MisuseError(f"there is no choice of aiter's to write ({next(iter(left_out), 'the data have none')})")
    existing = next((out / name for name in files if (out / name).exists()), None)
    if existing is not None and not force:
        raise MisuseError(f"{existing} exists; --force overwrites files")
    write_together({out / name: _text(lines) for name, lines in files.items()})
    variables = (f"{_BY_NAME[kind_of(name)]}={shlex.quote(str((out / name).resolve()))}" for name in files)
    return {"files": [{"file": name, "rows": len(lines)} for name, lines in files.items()],
            **({"left out": reasons} if reasons else {}), "environment": " ".join(variables), "note": _NOTE}


def _recorded(data: Dataset) -> dict[_Product, Configuration]:
    """The choices of aiter's kernels in a data set."""
    rows = data.rows[data.rows["status"] == Status.CHOSEN.value]
    choices: dict[_Product, Configuration] = {}
    for device, problem, kernel, settings in zip(*(rows[name].astype(str) for name in (
            "device", "problem", "kernel", "configuration")), strict=True):
        if kernel.startswith(f"{BACKEND}."):
            choices[data.devices[device], data.known_problems[problem]] = configuration(kernel, settings)
    return choices


def _line(device: Device, problem: Problem, choice: Configuration | None) -> tuple[str, Mapping[str, object]]:
    """The name of the file of a choice, and its row. Raises FormatError if aiter would not find or understand it."""
    if choice is None:
        raise FormatError("the shape is outside of the dispatch's domain, or none of its kernels is proved valid there")
    kind, name = choice.kernel.removeprefix(f"{BACKEND}."), name_of(dict(choice.settings))
    if kind not in _BY_NAME:
        raise FormatError(f"aiter does not find kernels of {kind} by name")
    library = next((word for begin, word in _LIBRARIES.items() if name.startswith(begin)),
                   "cktile" if "_cktile_" in name else "ck")
    cells = dict(zip(_WRITTEN, (device.architecture, device.compute_units, problem["m"], problem["n"], problem["k"],
                                library, choice[SPLIT_K], name), strict=True))
    file = f"{kind}_tuned_gemm.csv"
    if problem_of(file, {column.lower(): str(cell) for column, cell in cells.items()}) != problem:
        raise FormatError(f"{file} cannot tell all features of the problem")
    return file, cells


def _text(lines: Sequence[Mapping[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, _WRITTEN, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


AITER = Format(("*tuned*gemm*.csv", "*.parquet"), read=_read, write=_write, asks=("force", "members"), folder=True)


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
