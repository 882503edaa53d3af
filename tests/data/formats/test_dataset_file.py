"""A long journal becomes a folder of files, whole or not at all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import export_journal, read_dataset
from seqtune.data.formats.format import ExportRequest
from seqtune.data.journal.journal import Journal
from seqtune.data.journal.rows import ROWS
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of 300 records in three batches."""
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(DEVICE)
        journal.add_all([Record(Problem.make("gemm", m=number, n=4, k=5), DEVICE.key, 1,
                                Configuration.of("test.k", {"tile": 1}), "t1",
                                Measurement(Status.CORRECT, (1e-3 * number,)), 1.0, "random")
                         for number in range(1, 301)])
        return journal.path


def test_a_long_journal_is_written_as_a_folder_that_is_read_as_one_data_set(journal: Path, tmp_path: Path) -> None:
    report = export_journal(ExportRequest(journal), tmp_path / "long.parquet", most_rows=299, batches=1)
    assert (report["records"], report["problems"], report["files"]) == (300, 300, 3)
    assert sorted(path.name for path in (tmp_path / "long.parquet").iterdir()) == [
        f"part-0000{number}.parquet" for number in range(3)]
    lengths = [len(Dataset.read(path)) for path in sorted((tmp_path / "long.parquet").iterdir())]
    assert lengths == [ROWS, ROWS, 300 - 2 * ROWS]
    data = read_dataset(tmp_path / "long.parquet")
    assert sorted(data.rows["seconds"]) == pytest.approx([1e-3 * number for number in range(1, 301)])


def test_a_short_journal_stays_one_file(journal: Path, tmp_path: Path) -> None:
    report = export_journal(ExportRequest(journal), tmp_path / "short.parquet", most_rows=300, batches=1)
    assert "files" not in report
    assert len(Dataset.read(tmp_path / "short.parquet")) == 300


def test_an_export_that_fails_in_its_second_file_leaves_nothing(journal: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(journal)) as connection, connection:
        connection.execute("UPDATE trials SET samples = '[-1.0]' WHERE id = 200")
    with pytest.raises(FormatError, match="row 200"):
        export_journal(ExportRequest(journal), tmp_path / "long.parquet", most_rows=299, batches=1)
    assert [path.name for path in tmp_path.iterdir() if "journal" not in path.name] == []
