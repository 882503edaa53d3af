"""A trained predictor becomes code: the command and the function."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

import seqtune
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.llvm.library import KERNELS
from seqtune.predictor.checkpoint_folder import replacing_folder
from tests.support.learning.c_programs import CPU, small_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_checkpoint(CPU).save(tmp_path_factory.mktemp("checkpoints") / "small")


def test_a_checkpoint_becomes_a_c_file_with_its_header(folder: Path, tmp_path: Path) -> None:
    written = seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, libraries=["llvm"])
    assert written.report["kernels"] == len(KERNELS)
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


def test_a_full_disk_leaves_neither_source_nor_header(folder: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(file: int) -> None:
        if os.fstat(file).st_size > 50_000:  # the source, not the header
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", flush)
    with pytest.raises(SeqtuneError, match=r"cannot write .*predictor\.c: No space left") as refusal:
        seqtune.export(tmp_path / "predictor.c", "c", checkpoint=folder, libraries=["llvm"])
    assert refusal.value.exit_code == 1
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_on_a_full_disk_is_no_misuse(tmp_path: Path) -> None:
    def save() -> None:
        with replacing_folder(tmp_path / "checkpoint") as scratch:
            (scratch / "config.json").write_text("{}")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(SeqtuneError, match=r"cannot write the checkpoint .*: No space left") as refusal:
        save()
    assert refusal.value.exit_code == 1
    assert not list(tmp_path.iterdir())
