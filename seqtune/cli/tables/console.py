"""The console on standard output, and what all tables share: their form, their cells, rows and named fields."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...errors import printable

WIDTH = 200  # columns where there is no terminal
_LONG = ("configuration", "problem", "winner", "status", "model", "means")  # columns that may wrap


class _Console(Console):
    """A console that shows foreign texts, such as the words of a library, without what they may tell a terminal."""

    def render_str(self, text: str, *args: Any, **options: Any) -> Text:
        return super().render_str(printable(text), *args, **options)


out = _Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)


def table_of(*columns: str, right: Sequence[str] = ()) -> Table:
    """An empty table; the columns `right` are aligned right."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        wraps = column in _LONG
        table.add_column(column, justify="right" if column in right else "left", no_wrap=not wraps,
                         overflow="fold" if wraps else "ellipsis")
    return table


def rows(records: Sequence[Mapping[str, Any]], right: Sequence[str] = ()) -> None:
    """Print a table of rows. Numbers are right-aligned, and so are the columns in `right`."""
    if not records:
        return
    columns = list(records[0])
    numbers = [name for name in columns if name in right or isinstance(records[0][name], int | float)]
    table = table_of(*columns, right=numbers)
    for row in records:
        table.add_row(*(cell(row[name]) for name in columns))
    out.print(table)


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
