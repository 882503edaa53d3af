"""A trained predictor becomes code: the command and the function."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqtune
from seqtune.errors import MisuseError
from tests.support.learning.c_programs import CPU, small_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_checkpoint(CPU).save(tmp_path_factory.mktemp("checkpoints") / "small")


def test_a_checkpoint_becomes_a_c_file_with_its_header(folder: Path, tmp_path: Path) -> None:
    written = seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, libraries=["llvm"])
    assert written.report["kernels"] == 4
    header = (tmp_path / "predictor.h").read_text()
    assert header.strip() in (tmp_path / "predictor.c").read_text()
    assert "seqtune_predict(" in header
    with pytest.raises(MisuseError, match="exists"):
        seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder)
    seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, force=True)


def test_wrong_requests_write_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="ends with"):
        seqtune.export(tmp_path / "predictor.txt", "c", checkpoint=folder)
    with pytest.raises(MisuseError, match="knows no kernel of opencl"):
        seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, libraries=["opencl"])
    with pytest.raises(MisuseError, match="--hold-out is not for --format c"):
        seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, hold_out="networks")
    assert not list(tmp_path.iterdir())
