"""Unfinished trainings: each checkpoint has a folder of its own, whatever its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.errors import MisuseError
from seqtune.predictor.training.unfinished import UnfinishedTraining


@pytest.mark.parametrize("letter", ["p", "\N{GRINNING FACE}"])  # of one byte and of four
def test_checkpoints_whose_long_names_begin_alike_have_folders_of_their_own(letter: str, tmp_path: Path) -> None:
    names = [letter * 60, letter * 60 + "1", letter * 60 + "2"]
    folders = [UnfinishedTraining.of(tmp_path / name, None, {}).folder for name in names]
    assert len(set(folders)) == 3
    for folder in folders:
        folder.mkdir()  # no name is too long


def test_a_folder_cannot_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "out.training").write_text("")
    with pytest.raises(MisuseError, match="is not a folder and cannot be created"):
        UnfinishedTraining.of(tmp_path / "out", None, {})
