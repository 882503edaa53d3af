"""The resources of a built kernel are kept with its measurement: in messages, journals and data sets."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from seqtune.api.exchanging import export
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError, SeqtuneError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.resource_usage import ResourceUsage
from tests.support.old_journals import write_old_journal

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)
USAGE = ResourceUsage(registers=168, shared_bytes=99_328, spill_bytes=12, occupancy=0.1875)
COLUMNS = ["registers", "shared_bytes", "spill_bytes", "occupancy"]


def record(tile: int, status: Status = Status.CORRECT, resources: ResourceUsage | None = USAGE,
           run: str = "random") -> Record:
    samples = (1e-3, 2e-3) if status is Status.CORRECT else ()
    return Record(PROBLEM, DEVICE.key, 1, Configuration.of("test.k", {"tile": tile}), "t1",
                  Measurement(status, samples, None, 0.02, resources=resources), 1.0, run, "here")


RECORDS = [record(1), record(2, Status.TIMEOUT), record(4, Status.COMPILE, None), record(1, run="final")]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as opened:
        opened.add_device(DEVICE)
        for new in RECORDS:
            assert opened.add(new)
    return path


@pytest.mark.parametrize("resources", [USAGE, None])
def test_a_message_between_processes_carries_them(resources: ResourceUsage | None) -> None:
    measurement = record(1, resources=resources).measurement
    assert Measurement.from_json(json.loads(json.dumps(measurement.to_json()))) == measurement


@pytest.mark.parametrize("content", [
    [168, 0, 0, 1.0], {"registers": 168}, {**USAGE.to_json(), "registers": 0}, {**USAGE.to_json(), "registers": "168"},
    {**USAGE.to_json(), "spill_bytes": -1}, {**USAGE.to_json(), "occupancy": 1.5},
    {**USAGE.to_json(), "occupancy": float("nan")}])
def test_impossible_resources_are_refused(content: object) -> None:
    with pytest.raises(ValueError, match="not the resources of a kernel"):
        ResourceUsage.from_json(content)


def test_a_journal_keeps_them_and_refuses_damaged_ones(journal: Path) -> None:
    with Journal(journal) as opened:
        assert list(opened.records()) == RECORDS
    connection = sqlite3.connect(journal)
    connection.execute("UPDATE trials SET resources = '[1, 2, 3]'")
    connection.commit()
    connection.close()
    with Journal(journal) as opened, pytest.raises(FormatError, match=r"is damaged: .*not the resources"):
        list(opened.records())


def test_a_journal_of_version_2_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    old = [record(1, resources=None), record(2, Status.TIMEOUT, None), record(1, resources=None, run="final")]
    write_old_journal(path, 2, old, DEVICE)
    old = [replace(one, machine="l1=1", session="s", stage="alone", budget=2.0) for one in old]
    for _ in range(2):  # migrated, then as it is
        with Journal(path) as opened:
            assert list(opened.records()) == old
            assert not opened.add(old[0])
    with Journal(path) as opened:
        assert opened.add(record(4))
        assert opened.add(record(4, run="final"))
        assert [one.measurement.resources for one in opened.records()] == [None, None, USAGE, None, USAGE]


def test_a_migration_from_version_2_that_fails_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    write_old_journal(path, 2, [record(1)], DEVICE)
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE repeats ADD COLUMN resources TEXT")  # so that the second statement fails
    connection.commit()
    with pytest.raises(SeqtuneError, match="duplicate column"):
        Journal(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    assert "resources" not in [row[1] for row in connection.execute("PRAGMA table_info(trials)")]
    connection.close()


def test_a_data_set_keeps_them_through_export_and_replay(journal: Path, tmp_path: Path) -> None:
    out = tmp_path / "set.parquet"
    export(out, journal=journal)
    data = Dataset.read(out)
    needs = [record.measurement.resources for record in data.merge(data).records()]
    assert needs == [USAGE, USAGE, USAGE, None]  # sorted by configuration
    data.write(tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == out.read_bytes()


def test_a_data_set_without_the_columns_is_read_and_one_with_impossible_values_refused(
        journal: Path, tmp_path: Path) -> None:
    path = tmp_path / "set.parquet"
    with Journal(journal) as opened:
        data = Dataset.from_journal(opened)
    data.write(path)
    pq.write_table(pq.read_table(path).drop_columns(COLUMNS), path)
    older = Dataset.read(path)
    assert not older.rows[COLUMNS].to_numpy().any()
    assert {one.measurement.resources for one in older.records()} == {None}
    replace(data, rows=data.rows.assign(occupancy=1.5)).write(path)
    with pytest.raises(FormatError, match="occupancy at most 1"):
        Dataset.read(path)
