"""Readers of MIOpen's files: perf-dbs (SQLite and text) and find-dbs (text), compressed or not.

The files come from outside, so they are not trusted: sizes are bounded, a database cannot run code, and an invalid row
is counted and left out.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from seqtune.data.unpacking import lines, unpacked, unpacked_pieces
from seqtune.errors import FormatError, shown

from .terms import COLUMNS, NUMBERS_BEFORE, WORDS

LARGEST_NUMBER = 1 << 40  # above every number that MIOpen writes
LONGEST_LINE = 100_000
LEAST_SECONDS, MOST_SECONDS = 1e-12, 1e9
LONGEST_WORD = 400
MOST_REASONS = 200  # of what is left out; a foreign file could make one for each of its lines
_SQLITE = b"SQLite format 3\0"
_STEPS = 200_000_000  # of SQLite's virtual machine; a valid file of the largest size needs a twentieth


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The most that is read of one file. MIOpen's largest one has 174,000 problems with 410,000 items."""

    file: int = 200_000_000  # bytes on disk
    text: int = 400_000_000  # bytes unpacked; MIOpen's largest file has 54 million
    database: int = 150_000_000  # bytes unpacked, which are in memory twice; MIOpen's largest file has 19 million
    problems: int = 1_000_000
    lines: int = 5_000_000  # empty and wrong ones included
    items: int = 2_000_000


LIMITS = FileLimits()


@dataclass
class PerfDb:
    """Rows of a perf-db: `columns` of problems, and labels (index of the problem, solver, parameters)."""

    columns: dict[str, list[int | str]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    labels: list[tuple[int, str, str]] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # reason -> rows


@dataclass
class FindDb:
    """Rows of a find-db: `columns` of problems, with out_d, out_h and out_w, and the times of their solvers."""

    columns: dict[str, list[int | str]] = field(
        default_factory=lambda: {name: [] for name in (*COLUMNS, "out_d", "out_h", "out_w")})
    times: list[tuple[int, str, float, int]] = field(default_factory=list)  # problem, solver, seconds, workspace
    algorithms: dict[str, str] = field(default_factory=dict)  # solver -> Direct, GEMM, ImplicitGEMM, Winograd, FFT
    skipped: Counter[str] = field(default_factory=Counter)


def count(skipped: Counter[str], reason: str, other: str, number: int = 1) -> None:
    """Count what is left out by its reason, or by another reason if there are MOST_REASONS already."""
    skipped[reason if reason in skipped or len(skipped) < MOST_REASONS else other] += number


def read(path: Path, limits: FileLimits = LIMITS) -> PerfDb | FindDb:
    """Read a perf-db or a find-db, recognised by its content. Raises FormatError."""
    pieces = unpacked_pieces(path, limits.file, limits.text)
    first = next(pieces, b"")
    if first.startswith(_SQLITE):
        return _sqlite(path, unpacked(path, limits.file, limits.database), limits)
    if b"\0" in first[:4096]:
        raise FormatError(f"{path} is neither a data base nor a text of MIOpen's")
    rows = _rows(path, chain((first,), pieces), limits)
    line = next(rows, "")
    key, equals, rest = line.partition("=")
    if not equals or ":" not in rest:
        raise FormatError(f"{path} is neither a data base nor a text of MIOpen's (it begins {line[:40]!r})")
    read_text = _perf_text if key.count("x") >= len(COLUMNS) - 1 and "-" not in key else _find_text
    return read_text(path, chain((line,), rows), limits)


def _rows(path: Path, pieces: Iterable[bytes], limits: FileLimits) -> Iterator[str]:
    """The lines that are not empty. Raises FormatError if there are too many."""
    for number, line in enumerate(lines(pieces, LONGEST_LINE), 1):
        if number > limits.lines:
            raise FormatError(f"{path} has more than {limits.lines} lines")
        if text := line.decode("utf-8", errors="replace").strip():
            yield text


def _sqlite(path: Path, content: bytes, limits: FileLimits) -> PerfDb:
    content = content[:18] + b"\1\1" + content[20:]  # no write-ahead log: it is not in this file
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(content)
            for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON", "temp_store = MEMORY"):
                connection.execute(f"PRAGMA {pragma}")
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000)
            steps = iter(range(_STEPS // 100_000))
            connection.set_progress_handler(lambda: next(steps, None) is None, 100_000)
            labels = _tables(path, connection, limits)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is no sound perf-db: {str(error)[:120]}") from None
    return labels


def _tables(path: Path, connection: sqlite3.Connection, limits: FileLimits) -> PerfDb:
    kinds = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchmany(100))
    for table, needed in (("config", COLUMNS), ("perf_db", ("solver", "config", "params"))):
        if not re.match(r"CREATE TABLE\b", str(kinds.get(table)), re.IGNORECASE):
            raise FormatError(f"{path} is a data base, but no perf-db of MIOpen's: it has no table {table}")
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        lacking = next((name for name in needed if name not in present), None)
        if lacking is not None:
            raise FormatError(f"{path}: the table {table} has no column {lacking}")
    labels = PerfDb()
    numbers = len(NUMBERS_BEFORE) + 1
    indices: dict[Any, int] = {}  # id -> index of the problem
    for row in connection.execute(f"SELECT id, {', '.join(COLUMNS)} FROM config"):
        if not _are_valid(row[:numbers], True) or not _are_valid(row[numbers:], False):
            labels.skipped["a problem that is not made of numbers and words"] += 1
            continue
        indices[row[0]] = len(indices)
        for name, value in zip(COLUMNS, row[1:], strict=True):
            labels.columns[name].append(value)
        _check_counts(path, len(indices), 0, limits)
    words: dict[str, str] = {}  # a data base can repeat a long word in few bytes
    for solver, config, params in connection.execute("SELECT solver, config, params FROM perf_db"):
        if config not in indices:
            labels.skipped["a label without its problem"] += 1
        elif not isinstance(solver, str) or not isinstance(params, str) or max(len(solver), len(params)) > LONGEST_WORD:
            labels.skipped["a label that is not made of words"] += 1
        elif not _is_solver(solver):
            count(labels.skipped, _foreign_solver(solver), _OTHER_SOLVER)
        else:
            labels.labels.append((indices[config], words.setdefault(solver, solver), words.setdefault(params, params)))
            _check_counts(path, 0, len(labels.labels), limits)
    return labels


def _check_counts(path: Path, problems: int, items: int, limits: FileLimits) -> None:
    if problems > limits.problems or items > limits.items:
        raise FormatError(f"{path} has more than {limits.problems} problems or {limits.items} items")


def _are_valid(values: Sequence[Any], numbers: bool) -> bool:
    """Whether the values are whole numbers, or short words."""
    if numbers:
        return all(type(value) is int and abs(value) < LARGEST_NUMBER for value in values)
    return all(type(value) is str and len(value) <= 20 for value in values)


def _entries(path: Path, rows: Iterable[str], skipped: Counter[str],
             limits: FileLimits) -> Iterator[tuple[str, list[str]]]:
    """The keys of the lines, each with its items. Raises FormatError if there are too many."""
    problems = total = 0
    for line in rows:
        key, equals, rest = line.partition("=")
        if not equals or len(line) > LONGEST_LINE:
            skipped["a line without key=value"] += 1
            continue
        items = rest.split(";")
        problems, total = problems + 1, total + len(items)
        _check_counts(path, problems, total, limits)
        yield key, items


def _is_solver(name: str) -> bool:
    """Whether MIOpen could call a solver so."""
    return len(name) <= LONGEST_WORD and _SOLVER.fullmatch(name) is not None


def _foreign_solver(name: str) -> str:
    return f"{shown(name, 60)} is no name of a solver"


_OTHER_SOLVER = "another name that is none of a solver"


def _perf_text(path: Path, rows: Iterable[str], limits: FileLimits) -> PerfDb:
    labels = PerfDb()
    number = 0
    for key, items in _entries(path, rows, labels.skipped, limits):
        words = key.split("x")
        numbers = words[:len(NUMBERS_BEFORE)]
        if len(words) != len(COLUMNS) or not all(map(_NUMBER.fullmatch, numbers)):
            labels.skipped["a key that is not MIOpen's"] += 1
            continue
        for name, word in zip(COLUMNS, words, strict=True):
            labels.columns[name].append(word if name in WORDS else int(word))
        for item in items:
            solver, colon, params = item.partition(":")
            if colon and not _is_solver(solver):
                count(labels.skipped, _foreign_solver(solver), _OTHER_SOLVER)
            elif colon and len(params) <= LONGEST_WORD:
                labels.labels.append((number, solver, params))
            elif item:
                labels.skipped["an item without solver:parameters"] += 1
        number += 1
    return labels


_NUMBER = re.compile(r"\d{1,12}", re.ASCII)
_TIME = re.compile(r"\d{1,12}(?:\.\d{0,12})?(?:[eE][+-]?\d{1,2})?", re.ASCII)
_PAIR = r"(\d{1,12})x(\d{1,12})"
_TRIPLE = r"(\d{1,12})x(\d{1,12})x(\d{1,12})"
_N = r"(\d{1,12})"
_TAIL = r"(\d)-([A-Za-z0-9-]{3,60})-([A-Z0-9]{3,40})-([A-Z])((?:_[A-Za-z0-9]{1,20}){0,8})"
_GROUPS = re.compile(r"g(\d{1,12})", re.ASCII)  # one of the parts that may follow the direction
_SOLVER = re.compile(r"[A-Za-z][A-Za-z0-9_<>,.:()+-]*", re.ASCII)
# channels, sizes, filter, channels, sizes, batch, pad, stride, dilation, bias, layout, type, direction, parts: groups,
# and the types that the operands are cast to (`_ciFP8_cwFP8`)
_FLAT_KEY = re.compile(f"{_N}-{_N}-{_N}-{_PAIR}-{_N}-{_N}-{_N}-{_N}-{_PAIR}-{_PAIR}-{_PAIR}-{_TAIL}", re.ASCII)
_DEEP_KEY = re.compile(f"{_N}-{_N}-{_N}-{_N}-{_TRIPLE}-{_N}-{_N}-{_N}-{_N}-{_N}-{_TRIPLE}-{_TRIPLE}-{_TRIPLE}-{_TAIL}",
                       re.ASCII)
_FLAT_ORDER = ("in_channels", "in_h", "in_w", "fil_h", "fil_w", "out_channels", "out_h", "out_w", "batchsize",
               "pad_h", "pad_w", "conv_stride_h", "conv_stride_w", "dilation_h", "dilation_w", "bias")
_DEEP_ORDER = ("in_channels", "in_d", "in_h", "in_w", "fil_d", "fil_h", "fil_w", "out_channels", "out_d", "out_h",
               "out_w", "batchsize", "pad_d", "pad_h", "pad_w", "conv_stride_d", "conv_stride_h", "conv_stride_w",
               "dilation_d", "dilation_h", "dilation_w", "bias")
_FLAT_CONSTANTS = {"in_d": 1, "fil_d": 1, "out_d": 1, "pad_d": 0, "conv_stride_d": 0, "dilation_d": 0}


def _find_text(path: Path, rows: Iterable[str], limits: FileLimits) -> FindDb:
    times = FindDb()
    columns = times.columns
    number = 0
    for key, items in _entries(path, rows, times.skipped, limits):
        flat = _FLAT_KEY.fullmatch(key)
        match = flat or _DEEP_KEY.fullmatch(key)
        if match is None:
            times.skipped["a key that is not MIOpen's"] += 1
            continue
        *values, layouts, data_type, direction, parts = match.groups()
        for name, word in zip(_FLAT_ORDER if flat else _DEEP_ORDER, values, strict=True):
            columns[name].append(int(word))
        if flat:
            for name, constant in _FLAT_CONSTANTS.items():
                columns[name].append(constant)
        groups = [part for part in parts.split("_") if _GROUPS.fullmatch(part)]
        others = [part for part in parts.split("_")[1:] if part not in groups]  # they change what is computed
        columns["spatial_dim"].append(2 if flat else 3)
        distinct = set(layouts.split("-"))
        columns["layout"].append(distinct.pop() if len(distinct) == 1 else layouts)
        columns["data_type"].append("_".join([data_type, *others]))
        columns["direction"].append(direction)
        columns["group_count"].append(int(groups[0][1:]) if groups else 1)
        if not any(items):
            times.skipped["a problem without solvers"] += 1
        for item in items:
            _item(times, number, item)
        number += 1
    return times


def _item(times: FindDb, problem: int, item: str) -> None:
    """Add an item to the times: `Solver:milliseconds,workspace,algorithm`, or in older versions
    `algorithm:Solver,milliseconds,workspace,...`. `problem` is the index of its problem.
    """
    head, _, rest = item.partition(":")
    words = rest.split(",")
    if len(words) == 5:
        solver, milliseconds, workspace, algorithm = words[:4]
    elif len(words) == 3:
        solver, (milliseconds, workspace, algorithm) = head, words
    else:
        if item:
            times.skipped["an item that is not MIOpen's"] += 1
        return
    if not _is_solver(solver):
        count(times.skipped, _foreign_solver(solver), _OTHER_SOLVER)
    elif not _TIME.fullmatch(milliseconds):
        count(times.skipped, f"a time of {shown(milliseconds)}", "another time that is no number")
    elif not _NUMBER.fullmatch(workspace):
        count(times.skipped, f"a workspace of {shown(workspace)}", "another workspace that is no number")
    elif not LEAST_SECONDS <= (seconds := float(milliseconds) / 1000) <= MOST_SECONDS:
        times.skipped["a time of 0" if seconds == 0 else "a time that no kernel takes"] += 1
    else:
        times.times.append((problem, solver, seconds, int(workspace)))
        if solver not in times.algorithms:
            times.algorithms[solver] = algorithm.partition("Algo")[2]
