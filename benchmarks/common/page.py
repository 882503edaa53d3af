"""Page: the claim of a benchmark, the command that shows it, the tables, the figure and the caveats.

`--out docs` writes docs/results/NAME.json, NAME.md and, if the program draws a figure, NAME.svg. A page is computed
from its JSON file alone, so `python -m benchmarks pages --out docs` writes all pages again without measuring.

A JSON file may have `notes`, a list of sentences about that one run. No program writes them: they are added by hand,
appear on the page as further caveats, and disappear when the program runs again.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.common.report import read_json, words, write_json
from seqtune.errors import FormatError, MisuseError, check_installed
from seqtune.kernels.files import write_whole

Results = Mapping[str, Any]  # the content of a JSON file
RESULTS = "results"  # the folder of pages inside the one given by --out


@dataclass(frozen=True)
class Page:
    """One page of results. All texts are Markdown."""

    name: str  # file name, without extension, of the page, the JSON file and the figure
    title: str
    claim: str
    command: str
    tables: str
    measured: str  # the machine and the date
    reading: str = ""  # how to read the tables
    caveats: tuple[str, ...] = ()
    figure: str = ""  # description of the figure; empty if there is none

    def markdown(self) -> str:
        """The text of the page."""
        image = f"![{self.figure}]({self.name}.svg)" if self.figure else ""
        caveats = "## Caveats\n\n" + "\n".join(f"- {caveat}" for caveat in self.caveats) if self.caveats else ""
        parts = [f"# {self.title}", self.claim, f"```sh\n{self.command}\n```", self.measured, self.reading,
                 self.tables, image, caveats, f"All figures: [{self.name}.json]({self.name}.json)."]
        return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def measured_on(results: Results) -> str:
    """The sentence about machine and date, from `machine` of a JSON file; it says so if either is missing there."""
    machine = results.get("machine", {})
    if "cpu" not in machine:
        return "The machine and the date of the measurement were not recorded."
    if "date" not in machine:
        return f"Measured on {words(machine)}; the date was not recorded."
    return f"Measured on {words(machine)}, on {machine['date']}."


def replayed(results: Results, verb: str) -> str:
    """The sentence of a program that uses the shipped times: the machine they are from, and the program's own date."""
    machine = results["machine"]
    return f"The times are those of the shipped data set, measured on {words(machine)}. {verb} on {machine['date']}."


def evaluated(results: Results, source: str) -> str:
    """The sentence of a program whose figures do not depend on the machine: its date, and where its data come from."""
    return f"Evaluated on {results['date']} from {source}; nothing was measured again."


def page_from(page: Callable[[Results], Page], results: Results) -> Page:
    """Make the page of a JSON file's content; its `notes` follow the caveats of the program."""
    without_notes = page(results)
    return replace(without_notes, caveats=(*without_notes.caveats, *results.get("notes", ())))


def add_out(parser: argparse.ArgumentParser, required: bool = False) -> None:
    """Add the option --out, the folder of the results."""
    parser.add_argument("--out", type=Path, required=required, metavar="FOLDER",
                        help=f"write the page, the JSON file and the figure into the folder {RESULTS} of it")


def check_ready(out: Path | None) -> None:
    """Check, before the long work begins, that figures can be drawn and that the folder can be written.

    Raises UnavailableError if matplotlib is missing, MisuseError if the folder cannot be used.
    """
    if out is None:
        return
    check_installed("plot", "matplotlib")
    folder = out / RESULTS
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise MisuseError(f"{out} is no folder, and cannot be created: {existing} is a file")
    if not os.access(existing, os.W_OK):
        raise MisuseError(f"no permission to write in {existing}")


def published(out: Path | None, name: str) -> dict[str, Any]:
    """The content of the JSON file of a page, of which a run measures only a part; empty if there is none.

    Raises FormatError if the file has no JSON object.
    """
    path = None if out is None else out / RESULTS / f"{name}.json"
    if path is None or not path.exists():
        return {}
    content = read_json(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path} has no JSON object")
    return content


def publish(out: Path | None, page: Callable[[Results], Page], results: Results,
            draw: Callable[[Path], None] | None = None) -> None:
    """Write the JSON file, the page and the figure into the folder; do nothing if `out` is None.

    Raises SeqtuneError if a file cannot be written.
    """
    if out is None:
        return
    written = page_from(page, results)
    folder = out / RESULTS
    write_json(folder / f"{written.name}.json", results)
    if draw is not None:
        draw(folder / f"{written.name}.svg")
    write_whole(folder / f"{written.name}.md", written.markdown())
