"""Tables of a dispatch: the sections of its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.dispatching.report import sections
from .console import out, show, table_of

if TYPE_CHECKING:
    from ...api.dispatching.results import Dispatched

MOST_SHAPES = 3  # of each list


def dispatched(result: Dispatched) -> None:
    """Print what a dispatch found; the page in its folder has longer lists and the rule."""
    out.say(f"{result.operation} on {result.device}")
    for section in sections(result, MOST_SHAPES):
        out.say(f"{section.title}:")
        if section.rows:
            numbers = [name for name, cell in zip(section.header, section.rows[0], strict=True) if cell[:1].isdigit()]
            table = table_of(*section.header, right=numbers)
            for row in section.rows:
                table.add_row(*row)
            show(table)
        for line in section.lines:
            out.say(line)
