"""The command line as a function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Run a command that must succeed, and return its JSON object."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))

    def call(*arguments: object) -> dict[str, Any]:
        code = main([*map(str, arguments), "--json"])
        shown = capsys.readouterr()
        assert code == 0, shown.err
        found = json.loads(shown.out)
        assert isinstance(found, dict)
        return found

    return call
