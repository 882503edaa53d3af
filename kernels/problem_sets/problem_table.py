"""ProblemTable: problems as a CSV file has them, a row each under the features' names.

Columns are separated by commas, semicolons, tabs or bars, as spreadsheets of all languages write them. A column that
names no feature holds labels, which a warning says, unless its name or its numbers look like a feature's. Labels are no
part of a problem: they stand beside the answer to it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from seqtune.errors import FormatError, ProblemError, shown, warned

from ..operations.near_names import SYNONYMS, close_name
from ..operations.table import operation, operations
from .foreign_text import ForeignTable, foreign_table

SEPARATORS = (",", ";", "\t", "|")
LABELS = ("layer", "id", "index", "label", "model", "network", "comment", "note", "time", "seconds")  # may be numbers
NAME, COUNT = "name", "count"  # columns of data sets of problems: a label, and how often a problem occurs
WEIGHTS = ("weight", "share", COUNT)  # columns that tell how much a problem counts, unless a feature has the name
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
    weight: str | None  # the cell that says how much it counts; None: the table has no such column


def table_rows(path: Path, text: str, kind: str | None = None) -> Iterator[TableRow]:
    """The rows of a table of problems. Empty cells are left out, so that features take the defaults.

    Another tool's table of problems of the operation `kind` is known by the file's name. Raises FormatError, which
    names the line.
    """
    header, rows = _cells(path, text)
    weigher = _weigher(header)
    form = foreign_table(kind, path.name)
    if form is not None:
        yield from _foreign_rows(form, path, header, rows, weigher)
        return
    labels = {name: _is_label(name, [row[column] for _, row in rows]) for column, name in enumerate(header)}
    told = ", ".join(shown(name) for name in header if name not in ("", NAME) and labels[name])
    if told:
        warned(f"{path}: columns that name no feature are labels: {told}")
    for number, row in rows:
        cells = {name: cell for name, cell in zip(header, row, strict=True) if cell}
        own = cells.pop("type", None)
        try:
            wide = own is not None and operation(own).is_open  # its problems have any features
            weight = cells.pop(COUNT if wide else weigher, "") if weigher is not None else None
            cells.pop(COUNT, None)
            told_apart = {name for name in cells if labels[name] and (name == NAME or not wide)}
            values = {name: _plain(cell) for name, cell in cells.items() if name not in told_apart}
        except ProblemError as error:
            raise FormatError(f"{path}:{number}: {error}") from None
        yield TableRow(number, own, values, {name: cells[name] for name in cells if name and name in told_apart},
                       weight)


def _foreign_rows(form: ForeignTable, path: Path, header: Sequence[str], rows: Iterable[tuple[int, Sequence[str]]],
                  weigher: str | None) -> Iterator[TableRow]:
    for number, row in rows:
        cells = dict(zip(header, row, strict=True))
        try:
            features = form.features(path.name, cells)
        except (FormatError, ProblemError) as error:
            raise FormatError(f"{path}:{number}: {error}") from None
        yield TableRow(number, form.operation, features, {}, None if weigher is None else cells[weigher])


def _weigher(header: Sequence[str]) -> str | None:
    """The column that says how much each row counts: the first of WEIGHTS that is no feature's name."""
    return next((name for name in WEIGHTS if name in header and name not in _features()), None)


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
    if name == "type":
        return False
    if name == NAME:
        return True
    features = _features()
    if name in features or name in WEIGHTS:
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
