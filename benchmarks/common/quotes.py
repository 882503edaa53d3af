"""Quotes: figures in README.md and docs/index.md that come from the JSON file of a page.

The text between `<!-- figures: NAME -->` and `<!-- end of figures -->` is made from docs/results/NAME.json, so that a
figure stands in one place. `python -m benchmarks pages --out docs` writes all quotes again.
"""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.common.page import RESULTS
from benchmarks.common.report import read_json
from benchmarks.programs import QUOTES, load
from seqtune.errors import FormatError
from seqtune.kernels.files import write_whole

FIGURES = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)


def quoting_files(out: Path) -> dict[Path, str]:
    """The files that quote figures, and what their links call the folder of the results; `out` is the docs' folder."""
    return {out.parent / "README.md": f"{out.name}/{RESULTS}", out / "index.md": RESULTS}


def with_quotes(text: str, results: Path, link: str) -> str:
    """The text with its quotes made from the JSON files in the folder `results`, which links call `link`.

    Raises FormatError if a quote has no function or no readable JSON file.
    """
    def quoted(match: re.Match[str]) -> str:
        begin, name, end = match.groups()
        try:
            quote = load(QUOTES[name])
            return f"{begin}{quote(read_json(results / f'{name}.json'), link).strip()}\n{end}"
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise FormatError(f"no figures to quote from {results / name}.json: {error!r:.100}") from None

    return FIGURES.sub(quoted, text)


def write_quotes(out: Path) -> list[Path]:
    """Write the quotes again in the files that have some, and return these files; `out` is the docs' folder."""
    written = []
    for path, link in quoting_files(out).items():
        before = path.read_text() if path.is_file() else ""
        after = with_quotes(before, out / RESULTS, link)
        if after != before:
            write_whole(path, after)
            written.append(path)
    return written
