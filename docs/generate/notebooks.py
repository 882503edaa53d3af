"""Notebooks: tutorials that are run while the site is built, each as a page with what its cells print and draw.

The files in docs/ hold no outputs: a notebook is run from its first cell in a fresh Python with an empty folder for
journals and checkpoints, and an error in a cell fails the build. What a cell's last line returns is shown as Jupyter
shows it, and hidden where the line ends with a semicolon. Jupyter itself is not needed, so the site can be built with
few packages and without a network.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, SeqtuneError, json_fault, one_line

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 1800  # seconds after which a notebook hangs; it takes 15 s on two idle cores, minutes on a busy machine


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a notebook: Python code or Markdown."""

    is_code: bool
    source: str


@dataclass(frozen=True, slots=True)
class Shown:
    """The output of a cell of code: the text that it prints, then its result as text or as a picture (PNG)."""

    text: str
    picture: bytes | None = None


def cells(text: str) -> list[Cell]:
    """The cells of a notebook's file (nbformat 4). Raises FormatError, also where a cell has outputs."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the notebook is not JSON: {json_fault(error)}") from None
    try:
        found = []
        for cell in content["cells"]:
            source = cell["source"]
            found.append(Cell(cell["cell_type"] == "code", source if isinstance(source, str) else "".join(source)))
            if cell.get("outputs"):
                raise FormatError(f"cell {len(found)} of the notebook has outputs; clear them")
        return found
    except (KeyError, TypeError) as error:
        raise FormatError(f"not a notebook: {one_line(error)}") from None


@cache
def shown(text: str) -> tuple[Shown, ...]:
    """Run the cells of code of a notebook's file, and return what each shows. Raises FormatError, SeqtuneError."""
    codes = [cell.source for cell in cells(text) if cell.is_code]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        homes = {"XDG_DATA_HOME": str(folder / "data")}  # the cache, which has the rates of devices, is the user's
        paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "docs.generate.notebooks", str(folder / "shown.json")], cwd=folder / "work",
                env=os.environ | homes | {"PYTHONPATH": os.pathsep.join(paths)}, input=json.dumps(codes),
                capture_output=True, text=True, check=False, timeout=LONGEST)
        except subprocess.TimeoutExpired:
            raise SeqtuneError(f"the notebook took more than {LONGEST} s") from None
        if done.returncode:
            raise SeqtuneError(done.stderr.strip() or f"the notebook ended with exit code {done.returncode}")
        results = json.loads((folder / "shown.json").read_text())
    return tuple(Shown(result["text"], result["picture"] and base64.b64decode(result["picture"])) for result in results)


def page(text: str, name: str) -> tuple[str, dict[str, bytes]]:
    """The Markdown of a notebook called `name`, after running it, and the pictures by the names that it refers to.

    Raises FormatError, SeqtuneError.
    """
    results, pictures = iter(shown(text)), dict[str, bytes]()
    parts = []
    for cell in cells(text):
        if not cell.is_code:
            parts.append(cell.source)
            continue
        result = next(results)
        parts.append(f"```python\n{cell.source}\n```")
        if result.text.strip():
            parts.append(f"```text\n{result.text.rstrip()}\n```")
        if result.picture is not None:
            picture = f"{name}-{len(pictures) + 1}.png"
            pictures[picture] = result.picture
            parts.append(f"![{_last_line(cell.source)}]({picture})")
    parts.append(f"This page is a notebook: [{name}.ipynb]({name}.ipynb). It was run when the site was built.")
    return "\n\n".join(parts) + "\n", pictures


def _last_line(source: str) -> str:
    return source.rstrip().splitlines()[-1].replace("[", "\\[").replace("]", "\\]")


def run(codes: Sequence[str]) -> list[dict[str, str | None]]:
    """Run cells of code one after another in one namespace; the fields of `Shown` of each, pictures in base64."""
    names: dict[str, Any] = {"__name__": "notebook"}
    results = []
    for number, code in enumerate(codes, start=1):
        statements = ast.parse(code, f"<cell of code {number}>").body
        last = statements.pop() if statements and isinstance(statements[-1], ast.Expr) else None
        printed = io.StringIO()
        value: Any = None
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(statements, []), f"<cell of code {number}>", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"<cell of code {number}>", "eval"), names)
        if code.rstrip().endswith(";"):
            value = None
        picture = value._repr_png_() if hasattr(value, "_repr_png_") else None
        text = printed.getvalue() + ("" if value is None or picture is not None else repr(value))
        results.append({"text": text, "picture": picture and base64.b64encode(picture).decode()})
    return results


def main() -> None:
    """Run the cells of code on standard input, a JSON array of texts, and write what they show to a file."""
    try:
        results = run(json.load(sys.stdin))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = next((frame for frame in frames if frame.filename.startswith("<cell")), None)
        place = "" if where is None else f"{where.filename[1:-1]}, line {where.lineno}: "
        sys.exit(f"{place}{type(error).__name__}: {one_line(error)}")
    Path(sys.argv[1]).write_text(json.dumps(results))


if __name__ == "__main__":  # processes that measure import this file
    main()
