"""The data set: what is written is read back; anything else is refused in one line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqtune.data.dataset import SCHEMA, Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.record import ALONE, REBUILT, TOGETHER, VERIFIED, Measurement, Record, Status
from seqtune.errors import DeviceError, FormatError, SeqtuneWarning
from seqtune.kernels.devices.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem

DEVICE = Device("test:1", "test", "paper", "none", toolchain="t1", extra=(("speed", 3),))
SMALL, LARGE = Problem.make("gemm", m=3, n=4, k=5), Problem.make("gemm", m=300, n=400, k=500)


def record(problem: Problem, tile: int, seconds: float | None, run: str = "random") -> Record:
    measurement = Measurement(Status.CORRECT, (seconds * 1.5, seconds), 1e-7, 0.02) if seconds else Measurement(
        Status.CRASH, message="the worker died")
    return Record(problem, DEVICE.key, 1, Configuration.of("test.k", {"tile": tile}), "t1", measurement, 1.0, run)


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(DEVICE)
        for one in (record(SMALL, 1, 1e-3), record(SMALL, 2, 0.5e-3), record(SMALL, 4, None), record(LARGE, 1, 2.0),
                    record(SMALL, 1, 0.8e-3, "final"), record(SMALL, 2, 0.9e-3, "final")):
            journal.add(one)
        return Dataset.from_journal(journal, {"host": "here"}, [LARGE.key])


def test_it_is_read_back_as_it_was_written(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "set.parquet"
    dataset.write(path)
    again = Dataset.read(path)
    order = ["device", "problem", "kernel", "configuration", "run"]
    pd.testing.assert_frame_equal(again.rows, dataset.rows.sort_values(order).reset_index(drop=True), check_dtype=False)
    assert (again.devices, again.known_problems) == (dataset.devices, dataset.known_problems)
    assert again.held_out == {LARGE.key}
    assert again.provenance == {"host": "here"}
    assert again.devices[DEVICE.key] == DEVICE
    assert pq.ParquetFile(path).schema_arrow.remove_metadata() == SCHEMA
    again.write(tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_a_time_that_rests_on_one_build_of_a_verification_is_left_out(tmp_path: Path) -> None:
    stages = {1: ALONE, 2: REBUILT, 4: TOGETHER}
    with Journal(tmp_path / "journal.sqlite") as journal:
        journal.add_device(DEVICE)
        for tile, stage in stages.items():
            journal.add(replace(record(SMALL, tile, 1e-3, VERIFIED), stage=stage, session="s"))
        journal.add(replace(record(SMALL, 8, None, VERIFIED), stage=ALONE, session="s"))
        journal.add(record(SMALL, 16, 1e-3))  # a trial of a search
        data = Dataset.from_journal(journal)
    assert {json.loads(text)["tile"] for text in data.rows["configuration"]} == {2, 4, 8, 16}, "a failure is no time"


def test_of_machines_that_share_a_device_key_only_the_one_whose_facts_are_stored_counts(tmp_path: Path) -> None:
    other = replace(DEVICE, l3_bytes=1 << 20)
    assert other.key == DEVICE.key
    with Journal(tmp_path / "journal.sqlite") as journal:
        for machine, seconds in ((other, 1e-3), (DEVICE, 2e-3)):  # the facts of the last one stay
            journal.add_device(machine)
            for tile in (1, 2):
                journal.add(replace(record(SMALL, tile, seconds), machine=machine.fingerprint))
        journal.add(record(SMALL, 4, 3e-3))  # as in a journal of version 1
        with pytest.warns(SeqtuneWarning, match=f"2 of test:1 with {other.fingerprint}.*`seqtune export`") as caught:
            found = Dataset.from_journal(journal)
    assert [str(warning.message).count("\n") for warning in caught] == [0]
    assert found.devices == {DEVICE.key: DEVICE}
    assert found.rows["seconds"].tolist() == pytest.approx([2e-3, 2e-3, 3e-3])


def test_a_failure_takes_infinitely_long(dataset: Dataset, tmp_path: Path) -> None:
    dataset.write(tmp_path / "set.parquet")
    rows = Dataset.read(tmp_path / "set.parquet").rows
    assert rows.loc[rows["status"] == "crash", "seconds"].tolist() == [math.inf]
    assert pq.read_table(tmp_path / "set.parquet")["seconds"].null_count == 1


def test_the_rows_of_a_device_are_found_by_its_name_the_beginning_of_one_or_its_key(dataset: Dataset) -> None:
    assert len(dataset.on(DEVICE.key)) == 6
    assert len(dataset.on("another")) == 0
    for name in (DEVICE.name, DEVICE.name.partition(":")[0].upper(), DEVICE.key):
        assert dataset.named(name) == [DEVICE.key]
    assert dataset.named(DEVICE.name[:-1]) == []


def test_a_device_is_found_where_its_name_is_clear(dataset: Dataset) -> None:
    one, two = (replace(DEVICE, name=f"test:{name}", model="a") for name in ("wide:2", "wide:1"))
    twin = replace(one, model="b")

    def of(*devices: Device) -> Dataset:
        return replace(dataset, devices={device.key: device for device in devices})

    assert of(one).device(None) is one
    assert of(one, two).device("TEST:wide:1") is two
    assert of(one, twin).device(twin.key) is twin
    for name, says in ((None, "name a device; .*test:wide:2, test:wide:1"), ("test:wide", "several devices are"),
                       ("test:wi", "no device 'test:wi'"), ("llvm:0", "the data set has test:wide:2, test:wide:1")):
        with pytest.raises(DeviceError, match=says):
            of(one, two).device(name)


def test_rows_become_records_again(dataset: Dataset, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        recorded = list(journal.records())
    again = list(dataset.records())
    assert [one.identity for one in again] == [one.identity for one in recorded]
    for one, other in zip(again, recorded, strict=True):
        assert one.run == other.run
        assert one.measurement.status is other.measurement.status
        assert one.measurement.seconds == pytest.approx(other.measurement.seconds)


def test_merging_keeps_each_trial_once(dataset: Dataset, tmp_path: Path) -> None:
    with Journal(tmp_path / "second.sqlite") as journal:
        journal.add_device(DEVICE)
        journal.add(record(SMALL, 1, 9.0))
        journal.add(record(SMALL, 8, 7.0))
        second = Dataset.from_journal(journal, {"when": "later"}, [SMALL.key])
    with pytest.warns(SeqtuneWarning, match="another of the merged data sets holds out 1 problem "):
        merged = dataset.merge(second)
    assert len(merged) == len(dataset) + 1
    assert 9.0 not in merged.rows["seconds"].tolist()
    assert merged.held_out == {SMALL.key, LARGE.key}
    assert merged.provenance == {"host": "here", "when": "later"}
    assert len(dataset.merge(dataset)) == len(dataset)


def spoil(path: Path, kind: str, dataset: Dataset) -> None:
    table = pq.read_table(path)
    facts: dict[str, Any] = json.loads(table.schema.metadata[b"seqtune"])
    if kind == "text":
        path.write_text("device,problem\n" * 30)
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif kind == "absent":
        path.unlink()
    elif kind == "foreign":
        pq.write_table(pa.table({"a": [1, 2]}), path)
    else:
        if kind == "version":
            facts["version"] = 7
        elif kind == "problem":
            facts["problems"][SMALL.key]["m"] = -3
        elif kind == "device":
            facts["devices"] = {}
        elif kind == "huge":
            facts["devices"] = {key: {**device, "bandwidth_gbs": 10**400} for key, device in facts["devices"].items()}
        elif kind == "list":
            facts = [1]  # type: ignore[assignment]
        elif kind == "column":
            table = table.drop(["status"])
        elif kind == "type":
            table = table.set_column(6, "seconds", pa.array(["soon"] * len(table)))
        elif kind == "status":
            table = table.set_column(5, "status", pa.array(["fine"] * len(table)))
        elif kind in ("seconds", "endless"):
            table = table.set_column(6, "seconds", pa.array([-1.0 if kind == "seconds" else 1e400] * len(table)))
        elif kind == "empty":
            table = table.set_column(4, "configuration", pa.array([None] * len(table), pa.string()))
        pq.write_table(table.replace_schema_metadata({"seqtune": json.dumps(facts)}), path)


@pytest.mark.parametrize(("kind", "words"), [
    ("text", "not a data set"), ("truncated", "not a data set"), ("absent", "cannot read"),
    ("foreign", r"but not a data set of seqtune \(columns a"), ("version", "version 7; this seqtune reads version 1"),
    ("problem", "m=-3 is outside"), ("device", "unknown device"),
    ("huge", "set.parquet: device fact bandwidth_gbs is a whole number of more than 64 bits"), ("list", "version None"),
    ("column", "has no column status"), ("type", "not a data set"), ("status", "unknown status 'fine'"),
    ("seconds", "needs seconds above 0"), ("endless", "seconds above 0 that are finite"),
    ("empty", "the column configuration has empty rows")])
def test_anything_else_is_refused_in_one_line(dataset: Dataset, tmp_path: Path, kind: str, words: str) -> None:
    path = tmp_path / "set.parquet"
    dataset.write(path)
    spoil(path, kind, dataset)
    with pytest.raises(FormatError, match=words) as caught:
        Dataset.read(path)
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file(dataset: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "set.parquet"
    dataset.write(path)
    before = path.read_bytes()
    broken = replace(dataset, rows=dataset.rows.assign(samples="many"))
    with pytest.raises((pa.ArrowException, TypeError, ValueError)):
        broken.write(path)
    assert path.read_bytes() == before
    assert sorted(found.name for found in tmp_path.iterdir() if "parquet" in found.name) == ["set.parquet"]
