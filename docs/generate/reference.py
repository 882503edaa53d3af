"""Reference: the pages on commands, errors and kernels. `python -m docs.generate.reference` writes them.

They are kept with the other pages, so that links to them work wherever the repository is read. A test fails where a
page differs from what the program says now.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from . import command_line, errors, kernels

ROOT = Path(__file__).resolve().parents[2]
PAGES: dict[str, Callable[[], str]] = {  # path in the repository -> its Markdown
    "docs/reference/command-line.md": command_line.page,
    "docs/reference/errors.md": errors.page,
    "docs/reference/kernels.md": kernels.page,
}


def text(page: str) -> str:
    """The Markdown of a page of `PAGES`, which ends with one newline."""
    return PAGES[page]().rstrip("\n") + "\n"


def main() -> None:
    """Write every page."""
    for page in PAGES:
        (ROOT / page).write_text(text(page), encoding="utf-8")


if __name__ == "__main__":
    main()
