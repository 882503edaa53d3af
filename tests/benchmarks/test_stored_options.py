"""Finished work is not taken for work with other options."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.common.stored_options import check_options
from seqtune.errors import FormatError, MisuseError


def test_work_goes_on_with_the_same_options_and_not_with_others(tmp_path: Path) -> None:
    path, work = tmp_path / "new" / "options.json", tmp_path / "new" / "work"
    for _ in range(2):
        check_options(path, {"epochs": 3, "seed": 0}, work)
    with pytest.raises(MisuseError, match=r"work was made with epochs 3, not 4; name another --work folder"):
        check_options(path, {"epochs": 4, "seed": 0}, work)
    path.write_text("[")
    with pytest.raises(FormatError, match="not what this program writes; remove it"):
        check_options(path, {"epochs": 3, "seed": 0}, work)


def test_work_without_options_is_used_and_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rows.json").touch()
    check_options(tmp_path / "options.json", {"seed": 0}, tmp_path)
    assert "does not say its options; it is used" in capsys.readouterr().err
    with pytest.raises(MisuseError, match="seed 0, not 1"):
        check_options(tmp_path / "options.json", {"seed": 1}, tmp_path)
