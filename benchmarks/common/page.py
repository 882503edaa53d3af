"""Page: what a benchmark claims, the command that shows it, the figures, and what to keep in mind when reading them.

`--out docs` writes docs/results/NAME.json, NAME.md and, where the program draws a figure, NAME.svg. A page is a
function of its JSON file alone, so `python -m benchmarks.pages --out docs` writes all pages anew without measuring.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.report import style, words, write_json
from seqtune.errors import MisuseError
from seqtune.kernels.files import write_whole

Found = Mapping[str, Any]  # a JSON file's content
RESULTS = "results"  # the folder in --out


@dataclass(frozen=True)
class Page:
    """One result. All texts are Markdown."""

    name: str  # of the program: the page, the JSON file and the figure are called so
    title: str
    claim: str
    command: str
    tables: str
    measured: str  # the machine and the date, in one sentence
    reading: str = ""  # how to read the tables
    caveats: tuple[str, ...] = ()
    figure: str = ""  # what the figure shows; empty where there is none

    def markdown(self) -> str:
        """The page's text."""
        image = f"![{self.figure}]({self.name}.svg)" if self.figure else ""
        caveats = "## Caveats\n\n" + "\n".join(f"- {caveat}" for caveat in self.caveats) if self.caveats else ""
        parts = [f"# {self.title}", self.claim, f"```sh\n{self.command}\n```", self.measured, self.reading,
                 self.tables, image, caveats, f"All figures: [{self.name}.json]({self.name}.json)."]
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def measured_on(found: Found, verb: str = "Measured") -> str:
    """The sentence about machine and date, from `machine` of a JSON file."""
    where = found["machine"]
    return f"{verb} on {words(where)}, on {where['date']}."


def evaluated(found: Found, source: str) -> str:
    """The sentence of a program that looks up recorded times: the machine does not matter."""
    return f"Evaluated on {found['date']} from {source}; nothing was measured anew."


def add_out(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """The option that names the folder of the results."""
    parser.add_argument("--out", type=Path, required=required, metavar="FOLDER",
                        help=f"write the page, the JSON file and the figure into FOLDER/{RESULTS}")


def check_ready(out: Path | None) -> None:
    """Refuse before long work what would fail after it: the figures and the folder.

    Raises UnavailableError, MisuseError.
    """
    if out is None:
        return
    style()
    folder = out / RESULTS
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise MisuseError(f"{out} is no folder, and none can be made there")
    if not os.access(there, os.W_OK):
        raise MisuseError(f"{there} cannot be written")


def publish(out: Path | None, page: Callable[[Found], Page], found: Found,
            draw: Callable[[Path], None] | None = None) -> None:
    """Write the JSON file, the page and the figure; without a folder, nothing. Raises SeqtuneError."""
    if out is None:
        return
    folder = out / RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    made = page(found)
    write_json(folder / f"{made.name}.json", found)
    if draw is not None:
        draw(folder / f"{made.name}.svg")
    write_whole(folder / f"{made.name}.md", made.markdown())
