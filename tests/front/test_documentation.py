"""README and site: every snippet runs, every name in them exists, and the site builds without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.generate import architecture, docstrings, errors, import_arrows, reference
from seqtune.data.dataset import SCHEMA
from seqtune.data.formats.table import FORMATS
from seqtune.data.record import Status
from seqtune.errors import InterruptedTraining, InterruptedTuning, SeqtuneError
from seqtune.predictor.c_source import difference
from seqtune.tuner.strategies.table import STRATEGIES
from tests.support.documentation import (
    ROOT,
    SHELL,
    check_command,
    commands,
    pages,
    run_code,
    run_command,
    sentences,
    snippets,
    text_of,
    write_files,
    write_inputs,
)
from tests.support.installation.optional import needs, skip_without, skip_without_device

# Examples from the help, which run on other pages, and results, which their programs measured.
PARSED_ONLY = re.compile(r"docs/(reference/command-line\.md|results/.*)")
OPTIONAL = {"onnx": re.compile(r"^(.*torch\.onnx\.|seqtune .* --onnx )", re.M),
            "torch": re.compile(r"^(seqtune (re)?train|import torch|from seqtune\.pytorch)\b", re.M),
            "triton": re.compile(r"^(import seqtune\.triton|.* --compile triton)\b", re.M),
            "cuda": re.compile(r"^.* --compile cuda\b", re.M)}  # package -> the code that needs it
NEEDS_OPENCL = re.compile(r"--device opencl:|device=\"opencl:")
_FOLDERS = "kernels|data|tuner|predictor|networks|integrations|seqtune|benchmarks|tests|docs"


@pytest.mark.usefixtures("few_rounds", "few_trees")
@pytest.mark.parametrize("page", [page for page in pages() if any(not one.shown_by for one in snippets(page))])
def test_the_snippets_of_a_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(difference, "COMPARED", 20)
    code = "\n".join(snippet.text for snippet in snippets(page) if not snippet.shown_by)
    skip_without(*(package for package, needing in OPTIONAL.items() if needing.search(code)))
    if NEEDS_OPENCL.search(code) and not PARSED_ONLY.fullmatch(page):
        skip_without_device("opencl:0")
    write_inputs(page)
    write_files(page)
    names: dict[str, object] = {"__name__": "page"}
    for snippet in snippets(page):
        if snippet.language == "python" and not snippet.shown_by:
            run_code(snippet.text, names)
        elif snippet.language in SHELL:
            for words in commands(snippet):
                check_command(words)
                if not snippet.shown_by and not PARSED_ONLY.fullmatch(page):
                    run_command(words)


@pytest.mark.parametrize("page", pages())
def test_what_runs_the_other_snippets_exists(page: str) -> None:
    for snippet in snippets(page):
        path, _, test = (snippet.shown_by or "README.md").partition("::")
        assert (ROOT / path).is_file(), path
        assert f"def {test}(" in (ROOT / path).read_text() or not test
        if snippet.language == "python":
            compile(snippet.text, page, "exec")


@pytest.mark.parametrize("page", pages())
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = re.findall(rf"`((?:{_FOLDERS})/[\w./-]*)`", text_of(page))
    linked = [target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page))
              if "://" not in target and not target.startswith("#")]
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert [path for path in linked if not (ROOT / page).parent.joinpath(path).exists()] == []  # without the site, too


def test_no_sentence_of_the_site_stands_on_two_pages() -> None:
    found: dict[str, str] = {}
    for page in pages():
        if re.match("docs/(guides|tutorials|reference|internals)/", page):
            for sentence in sentences(text_of(page)):
                assert found.setdefault(sentence, page) == page, (sentence, found[sentence], page)


@pytest.mark.parametrize("page", reference.PAGES)
def test_a_page_that_comes_from_the_program_is_current(page: str) -> None:
    assert text_of(page) == reference.text(page), "python -m docs.generate.reference"


def test_every_exception_has_causes_and_cures() -> None:
    def below(error: type[SeqtuneError]) -> set[type[SeqtuneError]]:
        return {error}.union(*(below(child) for child in error.__subclasses__()))

    public = {error for error in below(SeqtuneError) if error.__module__ == "seqtune.errors"}
    assert public - set(errors.CURES) == {InterruptedTraining, InterruptedTuning}  # those of Interrupted
    assert all(rows for rows in errors.CURES.values())


def test_every_make_target_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^#   make ([\w-]+)", makefile, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), target


def test_strategies_statuses_columns_and_formats_are_all_described() -> None:
    for name in STRATEGIES:
        assert f"| `{name}` |" in text_of("docs/reference/tuning.md")
    for status in Status:
        assert f"| `{status}` |" in text_of("docs/internals/measuring-and-verification.md")
    for column in SCHEMA.names:
        assert f"`{column}`" in text_of("docs/reference/file-formats.md")
    for name in FORMATS:
        assert f"`{name}`" in text_of("docs/reference/file-formats.md")


def test_everything_public_has_a_docstring() -> None:
    assert docstrings.missing() == []


def test_the_picture_shows_every_room_and_no_arrow_that_runs_up() -> None:
    arrows = import_arrows.between_rooms()
    order = {floor: place for place, floor in enumerate(import_arrows.FLOORS)}
    assert all(order[source[0]] >= order[target[0]] for source, target in arrows)
    picture = architecture.draw()
    for module in import_arrows.modules():
        assert module[0] in picture
        assert len(module) < 3 or f">{module[1]}<" in picture


@needs("mkdocs", "mkdocstrings", "torch")
@pytest.mark.slow
@pytest.mark.anywhere
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    site = tmp_path / "site"
    assert "seqtune-predict" in (site / "reference" / "command-line.html").read_text()
    assert "llvm.winograd" in (site / "reference" / "kernels.html").read_text()
    assert (site / "internals" / "architecture.svg").is_file()
    assert 'src="architecture.svg"' in (site / "internals" / "architecture.html").read_text()
    listed = (site / "results" / "latency.html").read_text()
    assert listed.count('<a href="networks.html" class="md-nav__link">') == 1
    assert (site / "search" / "search_index.js").is_file()  # the search of a site that is opened from a folder
    assert 'src="iframe-worker.js"' in (site / "index.html").read_text()
    assert not re.search(r'(?:src|href)="https?://(?!squidfunk|www\.mkdocs|arxiv)', (site / "index.html").read_text())
