"""A long journal becomes a folder of files, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqtune.api import exchanging as exchange
from seqtune.data.dataset import Dataset
from seqtune.data.formats import dataset_file
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.journal.rows import ROWS
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal of 300 records in three batches, each of which makes a file."""
    monkeypatch.setattr(dataset_file, "MOST_ROWS", 299)
    monkeypatch.setattr(dataset_file, "BATCHES_OF_SHARD", 1)
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(DEVICE)
        journal.add_all([Record(Problem.make("gemm", m=number, n=4, k=5), DEVICE.key, 1,
                                Configuration.of("test.k", {"tile": 1}), "t1",
                                Measurement(Status.CORRECT, (1e-3 * number,)), 1.0, "random")
                         for number in range(1, 301)])
        return journal.path


def test_a_long_journal_is_written_as_a_folder_that_is_read_as_one_data_set(journal: Path, tmp_path: Path) -> None:
    report = exchange.export(tmp_path / "long.parquet", journal=journal).to_json()
    assert (report["records"], report["problems"], report["files"]) == (300, 300, 3)
    assert sorted(path.name for path in (tmp_path / "long.parquet").iterdir()) == [
        f"part-0000{number}.parquet" for number in range(3)]
    lengths = [len(Dataset.read(path)) for path in sorted((tmp_path / "long.parquet").iterdir())]
    assert lengths == [ROWS, ROWS, 300 - 2 * ROWS]
    data = read_dataset(tmp_path / "long.parquet")
    assert sorted(data.rows["seconds"]) == pytest.approx([1e-3 * number for number in range(1, 301)])


def test_a_short_journal_stays_one_file(journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_file, "MOST_ROWS", 300)
    report = exchange.export(tmp_path / "short.parquet", journal=journal).to_json()
    assert "files" not in report
    assert len(Dataset.read(tmp_path / "short.parquet")) == 300


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("No space left on device")])
def test_an_interrupted_export_leaves_nothing(error: type[BaseException] | OSError, journal: Path, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    write, count = Dataset.write, list[Path]()

    def second_fails(self: Dataset, path: Path) -> None:
        if count:
            raise error
        count.append(path)
        write(self, path)

    monkeypatch.setattr(Dataset, "write", second_fails)
    with pytest.raises((KeyboardInterrupt, SeqtuneError)):
        exchange.export(tmp_path / "long.parquet", journal=journal)
    assert count
    assert [path.name for path in tmp_path.iterdir() if "journal" not in path.name] == []
