"""The console on standard output, and what all tables share: their form, their cells, rows and named fields."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import printable

WIDTH = 200  # columns where there is no terminal, and none in the variable COLUMNS
_LONG = ("configuration", "problem", "winner", "status", "model", "means")  # columns that may wrap


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
    """Print a table or, where that would break inside a word, each row as lines: a name and a value."""
    columns = [[str(column.header), *map(str, column.cells)] for column in table.columns]
    needed = 0
    for column, cells in zip(table.columns, columns, strict=True):
        column.min_width = max(len(part) for text in cells for part in ([text] if column.no_wrap else text.split()))
        needed += column.min_width + 2  # two spaces between columns
    if needed <= out.width:
        out.print(table)
        return
    names, *values = zip(*columns, strict=True)
    for row in values:
        out.print()
        for index, (name, value) in enumerate(zip(names, row, strict=True)):
            text = f"{name}: {value}" if name else value
            lines = textwrap.wrap(text, out.width, initial_indent="  " if index else "", subsequent_indent="    ",
                                  break_on_hyphens=False, break_long_words=False)
            out.print("\n".join(lines), markup=False)
    out.print()


def rows(records: Sequence[Mapping[str, Any]], right: Sequence[str] = ()) -> None:
    """Print a table of rows. Numbers are right-aligned, and so are the columns in `right`."""
    if not records:
        return
    columns = list(records[0])
    numbers = [name for name in columns if name in right or isinstance(records[0][name], int | float)]
    table = table_of(*columns, right=numbers)
    for row in records:
        table.add_row(*(cell(row[name]) for name in columns))
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
            out.print(f"{indent}{name}: {cell(value)}", markup=False, soft_wrap=True)


def cell(value: object) -> str:
    """A value as the text of a cell."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)
