"""Notebooks: the runner shows what cells print, return and draw; those of the site parse and hold no outputs."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from docs.generate import notebooks
from tests.support.paths import ROOT

FILES = sorted((ROOT / "docs" / "tutorials" / "notebooks").glob("*.ipynb"))


def notebook(*cells: tuple[str, str]) -> str:
    """The text of a notebook with cells of these kinds and sources."""
    return json.dumps({"cells": [{"cell_type": kind, "source": source.splitlines(keepends=True)}
                                 for kind, source in cells], "nbformat": 4})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_notebooks_of_the_site_hold_code_without_outputs(path: Path) -> None:
    cells = notebooks.cells(path.read_text())
    assert not cells[0].is_code
    assert cells[0].source.startswith("# ")
    assert sum(cell.is_code for cell in cells) >= 3
    for cell in cells:
        if cell.is_code:
            ast.parse(cell.source)


def test_a_page_has_what_cells_print_return_and_draw() -> None:
    drawing = ("class Picture:\n    def _repr_png_(self):\n        return b'\\x89PNG of a test'\n\nPicture()")
    text, pictures = notebooks.page(notebook(
        ("markdown", "# Title\n\nWords."), ("code", "x = 2\nprint('printed')\nx + 1"), ("code", "x + 2;"),
        ("code", drawing)), "name")
    assert text.startswith("# Title\n\nWords.\n\n```python\nx = 2\nprint('printed')\nx + 1\n```\n\n"
                           "```text\nprinted\n3\n```\n\n```python\nx + 2;\n```\n\n```python\nclass Picture:")
    assert "![Picture()](name-1.png)" in text
    assert pictures == {"name-1.png": b"\x89PNG of a test"}


def test_a_notebook_runs_in_an_empty_folder_without_the_journals_of_the_user(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (result,) = notebooks.shown(notebook(("code", "import os\n(os.listdir(), os.environ['XDG_DATA_HOME'])")))
    assert result.text.startswith("([], ")
    assert str(tmp_path) not in result.text
