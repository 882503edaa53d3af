"""A trained predictor becomes code: the command and the function."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

import seqtune
from seqtune.data.dataset import Dataset
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.llvm.library import LIBRARY
from seqtune.kernels.problem_sets.sampler import sample_problems
from seqtune.kernels.registry import kernel
from seqtune.predictor.c_source import difference as differences
from seqtune.predictor.c_source.difference import difference
from tests.support.learning.c_programs import CPU, mixed_checkpoint, small_checkpoint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_checkpoint(CPU).save(tmp_path_factory.mktemp("checkpoints") / "small")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with two held-out problems."""
    shipped = Dataset.shipped()
    chosen = sorted(key for key in shipped.held_out if key.startswith("gemm"))[:2]
    path = tmp_path_factory.mktemp("data") / "held-out.parquet"
    replace(shipped, rows=shipped.rows[shipped.rows["problem"].isin(chosen)], held_out=frozenset(chosen)).write(path)
    return path


def test_a_checkpoint_becomes_a_c_file_with_its_header(folder: Path, data: Path, tmp_path: Path) -> None:
    written = seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, libraries=["llvm"], data=data)
    assert written.report["kernels"] == len(LIBRARY.table)
    header = (tmp_path / "predictor.h").read_text()
    assert header.strip() in (tmp_path / "predictor.c").read_text()
    assert "seqtune_predict(" in header
    with pytest.raises(MisuseError, match="exists"):
        seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, data=data)
    seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, data=data, prefix="mine", force=True)
    assert "mine_predict(" in (tmp_path / "predictor.h").read_text()


def test_an_export_says_how_much_it_differs_from_python_on_held_out_problems(folder: Path, data: Path,
                                                                            tmp_path: Path) -> None:
    written = seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, libraries=["llvm"], data=data)
    said = str(written.report["difference"])
    assert "measured held-out problems its first proposals reach 0." in said
    assert "those in Python for 100 %" in said  # without trees, C leaves out nothing
    comment = " ".join((tmp_path / "predictor.h").read_text().split("*/")[0].replace("\n *", " ").split())
    assert f"Compared with the checkpoint in Python, {said}." in comment


def test_without_held_out_problems_random_ones_are_compared(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(differences, "COMPARED", 20)
    read = Dataset.read(data)
    checkpoint = mixed_checkpoint([CPU], sample_problems("gemm", 8, 1))
    alone = replace(checkpoint, ranker=None, size=replace(checkpoint.size, judge=0))  # the beam's order
    kernels = [kernel(name) for name in LIBRARY.table]
    compared = difference(checkpoint, alone, kernels, replace(read, held_out=frozenset()))
    assert compared.what.startswith("random problems")
    assert compared.same < 1
    assert compared.c < compared.python == 1
    unknown = difference(checkpoint, alone, kernels, replace(read, rows=read.rows[:0], devices={}))
    assert "not known" in str(unknown)


def test_wrong_requests_write_nothing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="ends with"):
        seqtune.export_c(tmp_path / "predictor.txt", checkpoint=folder)
    with pytest.raises(MisuseError, match="knows no kernel of opencl"):
        seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, libraries=["opencl"])
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_neither_source_nor_header(folder: Path, data: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    def flush(file: int) -> None:
        if os.fstat(file).st_size > 50_000:  # the source, not the header
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", flush)
    with pytest.raises(SeqtuneError, match=r"cannot write .*predictor\.c: No space left") as refusal:
        seqtune.export_c(tmp_path / "predictor.c", checkpoint=folder, libraries=["llvm"], data=data)
    assert refusal.value.exit_code == 1
    assert not list(tmp_path.iterdir())
