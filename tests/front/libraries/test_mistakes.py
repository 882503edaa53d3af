"""Mistakes in a library's file: each is reported in one line with its place, and nothing else happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.__main__ import main
from seqtune.kernels.libraries.table import IN_USE
from tests.support.command_line import Refused
from tests.support.libraries.mistakes import CORRECT, LONG_TEXTS, MISTAKES, SOURCE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the library names."""
    home = tmp_path_factory.mktemp("library") / "home"
    home.mkdir()
    (home / "stencil.cl").write_text(SOURCE)
    (home / "reference.py").write_text("raise RuntimeError('this code ran')\n")
    (home / "bench").write_text("#!/bin/sh\n")
    (home / "loop").symlink_to("loop")
    (home.parent / "secret.cl").write_text(SOURCE)
    (home / "out.cl").symlink_to("../secret.cl")
    return home


def test_the_file_is_correct_without_a_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "library.toml").write_text(CORRECT)
    assert main(["kernels", str(folder)]) == 0
    assert "library.toml:15:60: the kernel does not read order" in capsys.readouterr().out


@pytest.mark.parametrize(("old", "new", "place", "words"), [mistake[1:] for mistake in MISTAKES],
                         ids=[mistake[0].replace(" ", "_") for mistake in MISTAKES])
def test_a_mistake_is_reported_in_one_line_with_its_place(
        old: str, new: str, place: str, words: str, folder: Path, refused: Refused) -> None:
    assert CORRECT.count(old) == 1
    for word, text in LONG_TEXTS.items():
        new = new.replace(word, text)
    path = folder / "library.toml"
    path.write_text(CORRECT.replace(old, new))
    line = refused("kernels", path)
    assert line.startswith(f"seqtune: {path}:{place}: ")
    assert words.split(": ")[-1] in line
    assert len(line) < 600 + len(str(path))
    assert "this code ran" not in line


def test_a_library_with_a_mistake_is_not_in_use(folder: Path, refused: Refused) -> None:
    (folder / "library.toml").write_text(CORRECT.replace("tile <= 128", "tiles <= 128"))
    refused("devices", "--library", folder)
    assert "stencil" not in IN_USE
