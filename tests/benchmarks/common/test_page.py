"""Tests of the pages of results: each page is computed from its JSON file."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.common.page import Page, publish
from benchmarks.pages import page_of
from benchmarks.programs import FIGURES, PAGES
from seqtune.errors import FormatError
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT

RESULTS = ROOT / "docs" / "results"


@pytest.mark.parametrize("name", [name for name in PAGES if (RESULTS / f"{name}.json").exists()])
def test_the_page_of_a_result_is_what_its_program_makes_of_its_figures(name: str) -> None:
    if name == "networks":
        skip_without("torch")
    page = page_of(name, RESULTS)
    assert (RESULTS / f"{name}.md").read_text() == page.markdown()
    assert page.name == name
    assert page.claim
    assert page.measured
    assert bool(page.figure) == (RESULTS / f"{name}.svg").exists()
    assert name not in FIGURES or page.figure


def test_every_file_of_the_results_belongs_to_a_page() -> None:
    assert {path.stem for path in RESULTS.iterdir()} <= {*PAGES, "index"}


def test_pages_and_figures_are_written_anew_without_measuring(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for name in ("headline", "results"):
        (tmp_path / "results" / f"{name}.json").write_bytes((RESULTS / f"{name}.json").read_bytes())
    pages.main(["--out", str(tmp_path)])
    for name in ("headline", "results"):
        assert (tmp_path / "results" / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text()
    assert "<svg" in (tmp_path / "results" / "results.svg").read_text()
    (tmp_path / "results" / "headline.json").write_text('{}')
    with pytest.raises(FormatError, match=r"headline\.json is not what its program writes"):
        pages.main(["--out", str(tmp_path)])


def test_a_program_publishes_page_figures_and_drawing(tmp_path: Path) -> None:
    page = Page("toy", "Toy", "It is fast.", "python -m toy", "| a |", "Measured here.", caveats=("Not much.",))
    publish(tmp_path / "new", lambda found: page, {"rows": [1]}, lambda path: path.touch())
    assert sorted(path.name for path in (tmp_path / "new" / "results").iterdir()) == ["toy.json", "toy.md", "toy.svg"]
    text = (tmp_path / "new" / "results" / "toy.md").read_text()
    assert text.startswith("# Toy\n\nIt is fast.\n\n```sh\npython -m toy\n```\n\nMeasured here.\n\n| a |\n")
    assert "- Not much." in text
    publish(None, lambda found: page, {})
