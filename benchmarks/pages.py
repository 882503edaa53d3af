"""Write the pages of results again from their JSON files: `python -m benchmarks pages --out docs` measures nothing.

It also draws their figures again, except those that need more than the JSON file, and writes again what README.md and
docs/index.md quote.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.page import RESULTS, Page, add_out, page_from
from benchmarks.common.program import OneLineParser
from benchmarks.common.quotes import write_quotes
from benchmarks.common.report import read_json
from benchmarks.programs import FIGURES, PAGES, load
from seqtune.errors import FormatError
from seqtune.kernels.files import write_whole


def page_of(name: str, folder: Path) -> Page:
    """Make a page from its JSON file in a folder. Raises FormatError if the file is not one of that program."""
    path = folder / f"{name}.json"
    try:
        return page_from(load(PAGES[name]), read_json(path))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise FormatError(f"{path} is not what its program writes: {error!r:.100}") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser, required=True)
    out = parser.parse_args(arguments).out
    folder = out / RESULTS
    for name in PAGES:
        if (folder / f"{name}.json").exists():
            write_whole(folder / f"{name}.md", page_of(name, folder).markdown())
            print(folder / f"{name}.md")
            if name in FIGURES:
                load(FIGURES[name])(read_json(folder / f"{name}.json"), folder / f"{name}.svg")
                print(folder / f"{name}.svg")
    for path in write_quotes(out):
        print(path)
