"""Data sets in files: what a training reads of them is the same however files divide them, and bounded."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset, read_training_data
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.shards import sampled_dataset
from seqtune.data.shards.files import ShardFiles, ShardLimits
from seqtune.data.shards.sampled_dataset import read_sampled
from seqtune.data.shards.trial_selection import SelectionLimits
from seqtune.errors import FormatError
from seqtune.kernels.problem_sets.parse import parse_problem
from tests.support.learning.short_training import DATA, QUICK, train
from tests.support.synthetic import DIRECT, registered


@pytest.fixture(autouse=True)
def fake_kernel() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def dataset() -> Dataset:
    rows = DATA.frame.drop(columns="held_out").assign(
        device=DATA.frame["device"].map({name: device.key for name, device in DATA.devices.items()}),
        kernel_version=DIRECT.version, spread=0.0, samples=10, error=0.0, build_seconds=0.0, toolchain="toy")
    repeated = rows.iloc[::7].assign(run="final", seconds=lambda frame: frame["seconds"] * 1.01)
    rows = pd.concat([rows, repeated], ignore_index=True).assign(seconds=lambda frame: frame["seconds"].fillna(np.inf))
    held_out = frozenset(DATA.frame["problem"][DATA.frame["held_out"]])
    devices = {device.key: device for device in DATA.devices.values()}
    return Dataset(rows, devices, {key: parse_problem(key) for key in rows["problem"].unique()}, held_out,
                   {"source": "toy"})


@pytest.fixture
def file(dataset: Dataset, tmp_path: Path) -> Path:
    dataset.write(tmp_path / "whole.parquet")
    return tmp_path / "whole.parquet"


@pytest.fixture
def folder(file: Path, tmp_path: Path) -> Path:
    """The rows of the file, shuffled and divided into five files; those of a trial keep their order."""
    whole = Dataset.read(file)
    part = np.random.default_rng(0).permutation(len(whole))
    (tmp_path / "shards").mkdir()
    for number in range(5):
        rows = whole.rows.iloc[np.sort(part[number::5])]
        replace(whole, rows=rows).write(tmp_path / "shards" / f"part-{number}.parquet")
    return tmp_path / "shards"


def times(data: Dataset) -> dict[tuple[str, str], np.ndarray]:
    return {measured.label: measured.seconds for measured in measured_tasks(data, held_out=False)}


def test_a_folder_of_files_is_read_as_the_one_file_is(file: Path, folder: Path) -> None:
    whole, parts = read_dataset(file), read_dataset(folder)
    assert len(whole) == len(parts)
    assert parts.held_out == whole.held_out
    seconds_of_parts = times(parts)
    for label, seconds in times(whole).items():
        np.testing.assert_array_equal(seconds, seconds_of_parts[label])
    assert read_training_data(folder, 0, print)[1] is None  # short


def test_a_sample_that_has_room_for_all_gives_the_same_weights(file: Path, folder: Path) -> None:
    whole, sampling = read_training_data(file, 0, print)
    assert sampling is None
    lines: list[str] = []
    sampled, sampling = read_training_data(folder, 0, lines.append, ShardLimits(learned=10))
    assert sampling is not None
    assert (sampling.files, sampling.records, sampling.share) == (5, len(whole), 1.0)
    assert lines == [sampling.text]
    quick = replace(QUICK, epochs=1, trees=replace(QUICK.trees, rounds=5), confidence=False)
    first, second = (train(data, quick)[0] for data in (whole, sampled))
    assert all((array == second.state[name]).all() for name, array in first.state.items())
    assert first.provenance == second.provenance


@pytest.mark.parametrize("batch", [100, 1 << 18])
def test_the_sample_depends_on_the_rows_and_the_seed_alone(file: Path, folder: Path, batch: int) -> None:
    limits = SelectionLimits(cases=20, configurations=300, each=24, pending=500)
    of_file, sampling = read_sampled(ShardFiles.of(file, ShardLimits(batch=batch)), 0, limits=limits)
    of_folder, again = read_sampled(ShardFiles.of(folder, ShardLimits(batch=batch)), 0, limits=limits)
    columns = ["device", "problem", "kernel", "configuration", "run"]
    first, second = (data.rows[~data.rows["problem"].isin(data.held_out)].sort_values(columns).reset_index(drop=True)
                     for data in (of_file, of_folder))
    pd.testing.assert_frame_equal(first, second)
    assert (sampling.cases, sampling.kept, sampling.each) == (again.cases, again.kept, again.each)
    assert sampling.cases <= 20
    assert first.groupby(columns[:2])["configuration"].nunique().max() <= 24
    assert first.drop_duplicates(columns[:4]).shape[0] <= 300
    assert not first.equals(read_sampled(ShardFiles.of(file), 1, limits=limits)[0].rows)


def test_each_held_out_problem_keeps_one_row(file: Path, dataset: Dataset) -> None:
    sampled, _ = read_sampled(ShardFiles.of(file), 0)
    held_out = sampled.rows["problem"][sampled.rows["problem"].isin(sampled.held_out)]
    assert sorted(held_out) == sorted(dataset.held_out)


def test_rows_that_no_training_uses_take_no_room(dataset: Dataset, tmp_path: Path) -> None:
    device = replace(next(iter(dataset.devices.values())), toolchain="toy")  # its key stays
    rows = dataset.rows[(dataset.rows["device"] == device.key) & ~dataset.rows["problem"].isin(dataset.held_out)]
    useless = [rows.assign(seconds=1e-9, **change) for change in (
        {"toolchain": "older"}, {"kernel_version": 99}, {"kernel": "gone.kernel"}, {"status": "constraints"})]
    replace(dataset, rows=pd.concat([*useless, rows]), devices={device.key: device}, held_out=frozenset()).write(
        tmp_path / "data.parquet")
    sampled, sampling = read_sampled(ShardFiles.of(tmp_path / "data.parquet"), 0)
    assert sampling.kept == len(sampled) == len(rows)


def test_a_trial_keeps_its_first_repetitions(dataset: Dataset, tmp_path: Path) -> None:
    rows = dataset.rows[~dataset.rows["problem"].isin(dataset.held_out) & (dataset.rows["run"] == "random")]
    many = pd.concat([rows.assign(seconds=rows["seconds"] + number) for number in range(12)])
    replace(dataset, rows=many).write(tmp_path / "data.parquet")
    sampled, _ = read_sampled(ShardFiles.of(tmp_path / "data.parquet", ShardLimits(batch=50)), 0)
    assert len(sampled) == len(rows) * sampled_dataset.REPETITIONS


def test_machines_whose_devices_share_a_key_are_kept_apart(dataset: Dataset, tmp_path: Path) -> None:
    for number, l2_bytes in enumerate((1 << 18, 1 << 21)):
        devices = {name: replace(device, l2_bytes=l2_bytes) for name, device in dataset.devices.items()}
        replace(dataset, devices=devices).write(tmp_path / f"{number}.parquet")
    sampled, _ = read_sampled(ShardFiles.of(tmp_path), 0)
    assert len(sampled.devices) == 4
    assert sampled.rows["device"].nunique() == 4
    assert len(measured_tasks(sampled, held_out=False)) == 2 * len(measured_tasks(dataset, held_out=False))


def spoilt(path: Path, **columns: Any) -> Path:
    """The file with other columns, in small row groups."""
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values(len(table)))
    pq.write_table(table, path, row_group_size=100)
    return path


@pytest.mark.parametrize(("columns", "says"), [
    ({"device": lambda count: pa.array(["gone"] * count)}, "unknown device 'gone'"),
    ({"problem": lambda count: pa.array([None] * count, pa.string())}, "the column problem has empty rows"),
    ({"configuration": lambda count: pa.array(["x" * 5000] * count)}, "a text of 5000 bytes"),
    ({"kernel": lambda count: pa.array([["list"]] * count)}, "lists or structures"),
    ({"seconds": lambda count: pa.array(["soon"] * count)}, "not a data set"),
    ({"problem": lambda count: pa.array(["dance n=1"] * count)}, "dance"),
    ({"seconds": lambda count: pa.array([-1.0] * count, pa.float32())}, "seconds above 0"),
])
def test_rows_that_are_none_are_refused_in_one_line(file: Path, columns: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError, match=says) as caught:
        read_sampled(ShardFiles.of(spoilt(file, **columns)), 0)
    assert "\n" not in str(caught.value)


def test_files_that_would_fill_the_memory_are_refused(file: Path, folder: Path) -> None:
    with pytest.raises(FormatError, match="a row group that unpacks to more than"):
        read_sampled(ShardFiles.of(file, ShardLimits(group=1000)), 0)
    with pytest.raises(FormatError, match="at most 1000 are read"):
        ShardFiles.of(folder, ShardLimits(records=1000))
    with pytest.raises(FormatError, match="more than 4 files"):
        ShardFiles.of(folder, ShardLimits(files=4))


def test_a_small_file_that_claims_many_rows_is_refused(file: Path) -> None:
    table = pq.read_table(file)
    bomb = pa.table({name: pa.nulls(500_000, table.schema.field(name).type) for name in table.column_names})
    pq.write_table(bomb.replace_schema_metadata(table.schema.metadata), file, compression="zstd")
    with pytest.raises(FormatError, match="which no measurements fit into"):
        read_training_data(file, 0, print)


def test_a_pipe_or_a_device_among_the_files_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.parquet")
    with pytest.raises(FormatError, match=r"pipe\.parquet is not a regular file"):
        ShardFiles.of(folder)
    with pytest.raises(FormatError, match=r"pipe\.parquet is not a regular file"):
        read_training_data(folder / "pipe.parquet", 0, print)
    (folder / "pipe.parquet").unlink()
    (folder / "zero.parquet").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"zero\.parquet is not a regular file"):
        ShardFiles.of(folder)


def test_a_folder_that_is_too_long_for_the_memory_is_read_by_train_alone(folder: Path) -> None:
    limits = ShardLimits(held=100)
    with pytest.raises(FormatError, match="only `seqtune train` reads such a data set"):
        read_dataset(folder, limits)
    assert read_training_data(folder, 0, lambda step: None, limits)[1] is not None


def test_a_folder_without_a_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="has no data set"):
        read_dataset(tmp_path)
