"""The page of answers as JSON: it has a section for each command, and names what answers hold.

The fixture `run` compares each answer of the tests of commands with the page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from seqtune.__main__ import main
from seqtune.cli import app
from tests.support.command_line import Run
from tests.support.json_page import PAGE, sections, undocumented


def test_every_command_has_a_section() -> None:
    program: Any = typer.main.get_command(app)
    assert set(program.commands) == {name for name in sections() if not name.startswith(("a-", "an-"))}


@pytest.mark.parametrize("words", [
    ["devices", "--all"], ["kernels"], ["kernels", "llvm.gemm"],
    ["predict", "gemm", "m=8", "n=8", "k=8", "--explain", "--min-confidence", "1"]])
def test_answers_have_the_fields_of_the_page(words: list[str], run: Run) -> None:
    assert run(*words)


def test_lines_for_many_problems_have_the_fields_of_the_page(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "problems.txt").write_text("gemm m=8 n=8 k=8\ngemm m=8 n=8 k=8 dtype=fp16\n")
    assert main(["predict", "--problems", str(tmp_path / "problems.txt"), "--jobs", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert [name for line in lines for name in undocumented("predict", json.loads(line))] == []


def test_every_link_of_the_page_leads_to_a_section() -> None:
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE.read_text())) <= sections().keys()
