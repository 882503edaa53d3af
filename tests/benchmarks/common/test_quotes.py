"""Tests of the figures that README.md and docs/index.md quote from the JSON files of the results."""

from __future__ import annotations

import pytest

from benchmarks.common.page import RESULTS
from benchmarks.common.quotes import FIGURES, quoting_files, with_quotes
from benchmarks.programs import QUOTES
from seqtune.errors import FormatError
from tests.support.installation.optional import skip_without
from tests.support.paths import ROOT


@pytest.mark.parametrize("name", ["README.md", "index.md"])
def test_what_a_file_quotes_is_what_the_results_say(name: str) -> None:
    skip_without("torch")  # which the quote of the networks imports
    path, way = next((path, way) for path, way in quoting_files(ROOT / "docs").items() if path.name == name)
    text = path.read_text()
    assert {found[2] for found in FIGURES.finditer(text)} == QUOTES.keys()
    assert with_quotes(text, ROOT / "docs" / RESULTS, way) == text, "run `python -m benchmarks pages --out docs`"


def test_a_quote_without_its_figures_is_one_clear_error() -> None:
    with pytest.raises(FormatError, match="no figures to quote"):
        with_quotes("<!-- figures: nothing -->\n<!-- end of figures -->", ROOT / "docs" / RESULTS, "results")
