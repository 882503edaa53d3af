"""ProblemTable: problems as a CSV file has them, a row each under the features' names.

Columns are separated by commas, semicolons, tabs or bars, as spreadsheets of all languages write them. A column that
names no feature holds labels, which a warning says, unless its name or its numbers look like a feature's. Labels are no
part of a problem: they stand beside the answer to it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from seqtune.errors import FormatError, ProblemError, shown, warned

from ..operations.near_names import SYNONYMS, close_name
from ..operations.table import operation, operations

SEPARATORS = (",", ";", "\t", "|")
LABELS = ("layer", "id", "index", "label", "model", "network", "comment", "note", "time", "seconds")  # may be numbers
NAME, COUNT = "name", "count"  # columns of data sets of problems: a label, and one that is left out
# A number with a decimal comma. One with three digits behind it is not known to have any: it may be in thousands.
_DECIMAL_COMMA = re.compile(r"([+-]?[0-9]+),([0-9]+)([eE][+-]?[0-9]{1,3})?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+")
_NUMBER = re.compile(r"[+-]?[0-9.,]+([eE][+-]?[0-9]+)?")


class TableRow(NamedTuple):
    """A row of a table of problems."""

    number: int  # of its line, from 1
    type: str | None  # of its problem, if the table has a column of types
    features: Mapping[str, object]
    labels: Mapping[str, str]


def table_rows(path: Path, text: str) -> Iterator[TableRow]:
    """The rows of a table of problems. Empty cells are left out, so that features take the defaults.

    Raises FormatError, which names the line.
    """
    header, rows = _cells(path, text)
    labels = {name: _is_label(name, [row[column] for _, row in rows]) for column, name in enumerate(header)}
    told = ", ".join(shown(name) for name in header if name not in ("", NAME) and labels[name])
    if told:
        warned(f"{path}: columns that name no feature are labels: {told}")
    for number, row in rows:
        cells = {name: cell for name, cell in zip(header, row, strict=True) if cell and name != COUNT}
        kind = cells.pop("type", None)
        try:
            wide = kind is not None and operation(kind).is_open  # its problems have any features
            told_apart = {name for name in cells if labels[name] and (name == NAME or not wide)}
            values = {name: _plain(cell) for name, cell in cells.items() if name not in told_apart}
        except ProblemError as error:
            raise FormatError(f"{path}:{number}: {error}") from None
        yield TableRow(number, kind, values, {name: cells[name] for name in cells if name and name in told_apart})


def _cells(path: Path, text: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names of the columns, and the cells of each row with the number of its line. Raises FormatError."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")  # also inside of quotes, where only labels have lines
    lines = csv.reader(io.StringIO(text), delimiter=_separator(text), strict=True)
    try:
        header = [name.strip().lower() for name in next(lines, [])]
        if header and header[0].startswith("sep="):  # a spreadsheet's line that names the separator
            header = [name.strip().lower() for name in next(lines, [])]
        if not any(header):
            raise FormatError(f"{path} is empty; its first line should name the features, like n,c,h,w,k,r,s")
        _check_separator(path, lines.line_num, header)
        named = [name for name in header if name]
        if len(set(named)) != len(named):
            raise FormatError(f"{path}:{lines.line_num}: a column is named twice")
        rows = [(lines.line_num, [cell.strip() for cell in row]) for row in lines if any(map(str.strip, row))]
    except csv.Error as error:
        raise FormatError(f"{path}:{lines.line_num}: not CSV: {error}") from None
    for number, row in rows:
        if len(row) != len(header):
            raise FormatError(f"{path}:{number}: {len(row)} cells under {len(header)} columns")
    return header, rows


def _separator(text: str) -> str:
    """The separator that the first line has most of; commas where it has none."""
    first = text.partition("\n")[0]
    if first.lower().startswith("sep=") and first[4:] in SEPARATORS:
        return first[4:]
    return max(SEPARATORS, key=first.count)


def _check_separator(path: Path, number: int, header: Sequence[str]) -> None:
    """Raise FormatError for a column whose name is several features, which another mark separates."""
    features = _features()
    for mark in (*SEPARATORS, " "):
        for name in header:
            if mark in name and features.issuperset(map(str.strip, name.split(mark))):
                raise FormatError(f"{path}:{number}: the column {shown(name)} is several features; separate all "
                                  "columns by one of , ; | or tab")


def _is_label(name: str, cells: Sequence[str]) -> bool:
    """Whether a column holds labels: its name is near no feature's, and it is a label's or there are words in it."""
    if name in ("type", COUNT):
        return False
    if name == NAME:
        return True
    features = _features()
    if name in features:
        return False
    words = any(cell and not _NUMBER.fullmatch(cell) for cell in cells)
    return name in LABELS or not name or (words and close_name(name, features) is None)


def _features() -> set[str]:
    """The names of all operations' features, and what stands for them."""
    features = {"relu", *SYNONYMS}
    for work in operations():
        features |= {*work.by_name, *work.shorthands, *work.hints}
    return features


def _plain(cell: str) -> str:
    """The cell with a decimal point in place of a decimal comma. Raises ProblemError if it may be in thousands."""
    if _THOUSANDS.fullmatch(cell):
        raise ProblemError(f"{cell!r:.40} may be in thousands or have a decimal comma; write "
                           f"{cell.replace(',', '')} or {cell.replace(',', '.', 1)}")
    comma = _DECIMAL_COMMA.fullmatch(cell)
    return cell.replace(",", ".") if comma else cell
