"""The console on standard output, and what all tables share: their form, their cells, rows and named fields."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from ...errors import printable

WIDTH = 200  # columns where there is no terminal, and none in the variable COLUMNS
SHORTEST_NAME = 16  # columns that a file's name gets at least where it is broken; with fewer it is hard to read
_LONG = ("configuration", "problem", "space", "winner", "status", "model", "means")  # columns that may wrap


class _Console(Console):
    """A console that shows foreign texts, such as the words of a library, without what they may tell a terminal.

    On a terminal, whose width the variable COLUMNS may also say, all lines are wrapped between words; in a file or a
    pipe, those printed with `soft_wrap` stay whole.
    """

    def __init__(self) -> None:
        self.wraps = sys.stdout.isatty() or "COLUMNS" in os.environ
        super().__init__(highlight=False, width=None if self.wraps else WIDTH)

    def print(self, *args: Any, **options: Any) -> None:  # one signature for all of rich's arguments
        options["soft_wrap"] = options.get("soft_wrap", False) and not self.wraps
        super().print(*args, **options)

    def say(self, text: str) -> None:
        """Print a text without markup as one line, wrapped on a terminal alone."""
        self.print(text, markup=False, soft_wrap=True)

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        return super().render_str(printable(text), *args, **options)


out = _Console()


def table_of(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table; the columns `right` are aligned right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        wraps = column in _LONG
        table.add_column(column, justify="right" if column in right else "left", no_wrap=not wraps,
                         overflow="fold" if wraps else "ellipsis")
    return table


def show(table: Table) -> None:
    """Print a table in the width that there is, without breaking a word.

    Where it is too wide, columns with one value in all rows become a line above it; then headers break after
    underscores, and file names after punctuation. A table that is still too wide becomes lines of a name and a value.
    """
    columns = [_Column(column, [str(column.header), *map(str, column.cells)]) for column in table.columns]
    differing = [column for column in columns if not column.is_constant] or columns
    for narrowed in (columns, differing, _with_broken_names(_with_broken_headers(differing))):
        if _fit(narrowed):
            if len(narrowed) < len(columns):
                out.say("\nin all rows: " + " | ".join(f"{column.texts[0]} {column.texts[1]}" for column in columns
                                                        if column.is_constant))
            out.print(_table(narrowed))
            return
    names, *values = zip(*(each.texts for each in columns), strict=True)
    for row in values:
        out.print()
        for index, (name, value) in enumerate(zip(names, row, strict=True)):
            text = f"{name}: {value}" if name else value
            lines = textwrap.wrap(text, out.width, initial_indent="  " if index else "", subsequent_indent="    ",
                                  break_on_hyphens=False, break_long_words=False)
            out.print("\n".join(lines), markup=False)
    out.print()


@dataclass(frozen=True)
class _Column:
    """A column of a table: its form, and its texts, the header first."""

    form: Column
    texts: list[str]

    @property
    def needed(self) -> int:
        """The width without which a word would break."""
        return max((len(part) for text in self.texts
                    for part in (text.splitlines() if self.form.no_wrap else text.split())), default=0)

    @property
    def is_constant(self) -> bool:
        """Whether it has a name and the same text in all rows, of which there are several."""
        return bool(self.texts[0]) and len(self.texts) > 2 and len(set(self.texts[1:])) == 1


def _fit(columns: Sequence[_Column]) -> bool:
    """Whether a table of the columns, with two spaces between them, is no wider than the console."""
    return sum(column.needed + 2 for column in columns) <= out.width


def _table(columns: Sequence[_Column]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        form = column.form
        table.add_column(column.texts[0], justify=form.justify, no_wrap=form.no_wrap, overflow=form.overflow,
                         min_width=column.needed)
    for row in zip(*(column.texts[1:] for column in columns), strict=True):
        table.add_row(*row)
    return table


def _with_broken_headers(columns: Sequence[_Column]) -> list[_Column]:
    """The columns, whose headers have a new line after each underscore."""
    return [replace(column, texts=[column.texts[0].replace("_", "_\n"), *column.texts[1:]]) for column in columns]


def _with_broken_names(columns: Sequence[_Column]) -> list[_Column]:
    """The columns, with file names in several lines where that makes the table fit."""
    others = sum(column.needed + 2 for column in columns if column.texts[0] != "file")
    width = out.width - others - 2
    if width < SHORTEST_NAME:
        return list(columns)
    return [replace(column, texts=[_broken(text, width) for text in column.texts]) if column.texts[0] == "file"
            else column for column in columns]


def _broken(name: str, width: int) -> str:
    """A name in lines of at most `width` characters, which end at punctuation if they can."""
    lines = [""]
    for part in re.findall(r"[^,_/=.-]*[,_/=.-]?", name):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("")
        lines[-1] += part
    return "\n".join(line[begin:begin + width] for line in lines for begin in range(0, len(line), width))


def rows(records: Sequence[Mapping[str, Any]], right: Sequence[str] = (), by: str = "") -> None:
    """Print a table of rows. Numbers are right-aligned, and so are the columns in `right`.

    Where the table is too wide, there is one for each value of the column `by`.
    """
    if not records:
        return
    columns = list(records[0])
    numbers = [name for name in columns if name in right or isinstance(records[0][name], int | float)]
    cells = {name: [cell(row[name]) for row in records] for name in columns}
    groups = list(dict.fromkeys(cells[by])) if by in cells else []
    if len(groups) > 1 and sum(2 + max(map(len, [name, *texts])) for name, texts in cells.items()) > out.width:
        for group in groups:
            rows([row for row in records if cell(row[by]) == group], right)
        return
    table = table_of(*columns, right=numbers)
    for texts in zip(*cells.values(), strict=True):
        table.add_row(*texts)
    show(table)


def fields(values: Mapping[str, Any], indent: str = "") -> None:
    """Print names and values; nested ones indented, lists of objects as tables."""
    for name, value in values.items():
        if isinstance(value, Mapping | list | tuple) and not value:
            out.print(f"{indent}{name}: none", markup=False)
        elif isinstance(value, Mapping):
            out.print(f"{indent}{name}:", markup=False)
            fields(value, indent + "  ")
        elif isinstance(value, Sequence) and value and isinstance(value[0], Mapping):
            out.print(f"{indent}{name}:", markup=False)
            rows(value)
        else:
            out.say(f"{indent}{name}: {cell(value)}")


def cell(value: object) -> str:
    """A value as the text of a cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return f"{value:z.4f}" if isinstance(value, float) else str(value)  # z: no minus before a zero
