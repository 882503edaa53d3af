"""The command line as functions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from tests.support.command_line import Refused, Run
from tests.support.json_page import undocumented


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a command that must succeed, and return its JSON object, of which the reference must name every field."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def call(*words: object) -> dict[str, Any]:
        capsys.readouterr()
        code = main([*map(str, words), "--json"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        found = json.loads(shown.out)
        assert isinstance(found, dict)
        assert list(undocumented(str(words[0]), found)) == []
        return found

    return call


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run a command that is misused: exit code 2, nothing on stdout, and one line on stderr, which is returned."""
    def call(*words: object) -> str:
        capsys.readouterr()
        code = main([*map(str, words)])
        shown = capsys.readouterr()
        assert (code, shown.out) == (2, ""), shown.err
        (line,) = shown.err.splitlines()
        assert line.startswith("seqtune: ")
        return line

    return call
