"""A folder of data sets is read as one data set, and what memory cannot hold is refused before it is read."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import export_journal, read_dataset, read_folder
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError, MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal of 300 records."""
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(DEVICE)
        journal.add_all([Record(Problem.make("gemm", m=number, n=4, k=5), DEVICE.key, 1,
                                Configuration.of("test.k", {"tile": 1}), "t1",
                                Measurement(Status.CORRECT, (1e-3 * number,)), 1.0, "random")
                         for number in range(1, 301)])
        return journal.path


@pytest.fixture
def whole(journal: Path, tmp_path: Path) -> Dataset:
    export_journal(tmp_path / "whole.parquet", journal=journal, hold_out=())
    return Dataset.read(tmp_path / "whole.parquet")


@pytest.fixture
def folder(whole: Dataset, tmp_path: Path) -> Path:
    """Three files with the rows of the whole data set, of which each second and third one holds out problems."""
    (tmp_path / "folder").mkdir()
    for number in range(3):
        rows = whole.rows.iloc[number::3]
        held_out = frozenset(rows["problem"].iloc[:number])
        replace(whole, rows=rows, held_out=held_out).write(tmp_path / "folder" / f"part-{number}.parquet")
    return tmp_path / "folder"


def test_a_folder_of_files_is_read_as_the_one_file_is(whole: Dataset, folder: Path) -> None:
    together = read_dataset(folder)
    columns = ["problem", "configuration", "run"]
    first, second = (data.rows.sort_values(columns).reset_index(drop=True) for data in (whole, together))
    pd.testing.assert_frame_equal(first, second)
    assert together.devices == whole.devices
    assert len(together.held_out) == 3


def test_a_folder_that_memory_cannot_hold_is_refused_before_a_row_is_read(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"folder has 300 records of 0 MiB, .* at most 299 records of 400 MiB are"):
        read_folder(folder, most_rows=299)
    with pytest.raises(FormatError, match=r"folder has 300 records .* at most 20,000,000 records of 0 MiB are read"):
        read_folder(folder, largest=1000)


def test_a_folder_without_a_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="has no data set"):
        read_dataset(tmp_path)


def test_a_pipe_or_a_device_among_the_files_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.parquet")
    for source in (folder, folder / "pipe.parquet"):
        with pytest.raises(FormatError, match=r"pipe\.parquet is not a regular file"):
            read_dataset(source)
    (folder / "pipe.parquet").unlink()
    (folder / "zero.parquet").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"zero\.parquet is not a regular file"):
        read_dataset(folder)


def test_a_data_set_whose_columns_no_reader_takes_is_not_written(
        whole: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.data.dataset.LARGEST_COLUMNS", 1000)
    with pytest.raises(MisuseError, match=r"large\.parquet is not written: 300 records take .* several data sets$"):
        whole.write(tmp_path / "large.parquet")
    assert not (tmp_path / "large.parquet").exists()


def test_a_journal_that_no_reader_holds_in_memory_is_refused(journal: Path, tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"holds 300 records; a data set has at most 299, because all"):
        export_journal(tmp_path / "long.parquet", journal=journal, hold_out=(), most_rows=299)
    assert [path.name for path in tmp_path.iterdir() if "journal" not in path.name] == []
