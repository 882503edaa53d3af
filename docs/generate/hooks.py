"""Hooks of MkDocs: the pages of notebooks and the picture of the architecture, which are made while the site is built,
the list of results, and the docstring check.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # MkDocs loads this file by its path

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402

from docs.generate import architecture, docstrings, notebooks  # noqa: E402
from seqtune.errors import SeqtuneError  # noqa: E402

PACKAGE = ROOT / "build" / "package"  # `paths` of mkdocstrings in mkdocs.yml
PICTURE = "internals/architecture.svg"
PLACE = "<!-- architecture.svg -->"  # in the page beside it, which has no picture where the repository is read


def on_startup(**_: object) -> None:
    """Copy the package with `kernels/__init__.py`, which the reader of docstrings needs."""
    shutil.rmtree(PACKAGE, ignore_errors=True)
    shutil.copytree(ROOT / "seqtune", PACKAGE / "seqtune", ignore=shutil.ignore_patterns(
        "__pycache__", "checkpoints", "shipped"))
    (PACKAGE / "seqtune" / "kernels" / "__init__.py").touch()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the other pages of benchmark programs under `Results`. Fails where a public docstring is missing."""
    undocumented = docstrings.missing()
    if undocumented:
        raise PluginError(f"public names without a docstring: {', '.join(undocumented)}")
    pages = [path.relative_to(config.docs_dir).as_posix() for path in _results(Path(config.docs_dir))]
    for section in config.nav or []:
        if isinstance(section, dict) and "Results" in section:
            section["Results"] = with_pages(section["Results"], pages)
    return config


def with_pages(entries: list[Any], pages: list[str]) -> list[Any]:
    """The entries of a section, each a page or {title: page}, and the pages that are not among them."""
    listed = {page for entry in entries for page in (entry.values() if isinstance(entry, dict) else [entry])}
    return [*entries, *(page for page in pages if page not in listed)]


def _results(docs: Path) -> list[Path]:
    return sorted(path for path in (docs / "results").glob("*.md") if path.name != "index.md")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the picture of the architecture, and a page for each notebook. Fails where a notebook does."""
    files.append(File.generated(config, PICTURE, content=architecture.draw()))
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        uri = Path(notebook.src_uri)
        try:
            text, pictures = notebooks.page(notebook.content_string, uri.stem)
        except SeqtuneError as error:
            raise PluginError(f"{notebook.src_uri}: {error}") from None
        files.append(File.generated(config, uri.with_suffix(".md").as_posix(), content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, uri.with_name(name).as_posix(), content=picture))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Show the picture of the architecture in its page."""
    title = "Floors and rooms of seqtune with the imports between them"
    return markdown.replace(PLACE, f"![{title}]({Path(PICTURE).name})")
