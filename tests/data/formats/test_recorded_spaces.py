"""Folders of recorded spaces become data sets with their kernels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.formats.recorded_spaces import read_recorded, recordings
from seqtune.errors import FormatError
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from tests.support.recorded_files import (
    CONFIGURATIONS,
    SPACE,
    VALUES,
    milliseconds,
    rows,
    write_recorded,
)


def times(data: Dataset, device: str) -> dict[str, float]:
    """Seconds by configuration, of the device of that name."""
    part = data.on(data.device(device).key).rows
    return dict(zip(part["configuration"], part["seconds"].astype(float), strict=True))


def key(*values: int) -> str:
    return Configuration.of("", dict(zip(VALUES, values, strict=True))).key


def test_a_recorded_folder_is_a_data_set_with_its_kernel(tmp_path: Path) -> None:
    data = read_dataset(write_recorded(tmp_path / "recorded"))
    kernel, = data.kernels.values()
    problem, = data.problems()
    assert problem.key == "recorded kernel=toy size_x=640 size_y=480"
    device = data.device("recorded:fast")
    assert (device.model, device.architecture) == ("The Fast One", "acme")
    space = SearchSpace(kernel, problem, device)
    assert [tuple(value for _, value in one.settings) for one in space] == CONFIGURATIONS
    assert times(data, "recorded:fast") == pytest.approx(
        {key(*one): milliseconds(*one[:3]) * 1e-3 for one in CONFIGURATIONS})


def test_what_was_made_up_is_no_measurement_and_failures_are(tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "recorded")
    data = read_recorded(folder)
    found = times(data, "recorded:odd")
    assert set(found) == {key(*one) for one in CONFIGURATIONS if one[2] == 1}
    assert {one for one, seconds in found.items() if np.isinf(seconds)} == {key(16, 1, 1, 7), key(16, 2, 1, 7)}
    skipped = {one.device: sum(one.skipped.values()) for one in recordings(folder)}
    assert skipped == {"fast": 0, "odd": len(CONFIGURATIONS) - len(found)}


def test_fractions_and_booleans_of_a_recorded_space_have_the_types_that_it_lists(tmp_path: Path) -> None:
    listed = {"x": [1, 1.5, 2], "f": [1.0, 2.0], "b": [True, False], "word": ["0.5", "a"]}
    columns = {"x": [1.0, 1.5, 2.0], "f": [1, 2, 1], "b": [1, 0, 1], "word": ["0.5", "a", "0.5"]}
    space = {"kernel": "toy", "tune_params": listed, "restrictions": ["f > 1 or x * b >= 1 and word == '0.5'"]}
    table = pa.table({"device": pa.array(["d"] * 3).dictionary_encode(), "status": pa.array(
        ["ok"] * 3).dictionary_encode(), "time_ms": [1.0, 2.0, 3.0], **columns})
    pq.write_table(table.replace_schema_metadata({b"space": json.dumps(space).encode()}), tmp_path / "k.parquet")
    data = read_recorded(tmp_path / "k.parquet")
    assert data.rows["configuration"].tolist() == [
        '{"x":1,"f":1.0,"b":true,"word":"0.5"}', '{"x":1.5,"f":2.0,"b":false,"word":"a"}',
        '{"x":2,"f":1.0,"b":true,"word":"0.5"}']
    assert set(data.rows["kernel_version"]) == {2} == {kernel.version for kernel in data.kernels.values()}
    kernel, = data.kernels.values()
    assert len(SearchSpace(kernel, next(iter(data.problems())), next(iter(data.devices.values())))) == 15


def test_a_data_set_keeps_its_declared_kernels_on_disk(tmp_path: Path) -> None:
    data = read_recorded(write_recorded(tmp_path / "recorded"))
    data.write(tmp_path / "data.parquet")
    again = Dataset.read(tmp_path / "data.parquet")
    assert again.kernels == data.kernels
    assert times(again, "recorded:odd") == times(data, "recorded:odd")


@pytest.mark.parametrize(("change", "says"), [
    ({"tune_params": {**VALUES, "lost": [1]}}, "no column 'lost'"),
    ({"restrictions": ["__import__('os').system('true')"]}, "not allowed"),
    ({"restrictions": ["block <"]}, "cannot read the expression"),
    ({"kernel": 3}, "kernel"),
    ({"tune_params": {"block": "many"}}, "tune_params"),
])
def test_a_space_that_makes_no_sense_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(FormatError, match=says):
        read_recorded(write_recorded(tmp_path / "recorded", {**SPACE, **change}))


@pytest.mark.parametrize(("column", "value"), [
    ("device", ["fast"]), ("status", {"word": "ok"}), ("time_ms", "soon"), ("n_runs", "many"), ("compile_ms", [1.0])])
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str, value: object) -> None:
    folder = write_recorded(tmp_path / "recorded")
    table = pa.Table.from_pylist([{**row, column: value} for row in rows("fast")])
    pq.write_table(table, folder / "toy.parquet")
    with pytest.raises(FormatError, match=r"toy\.parquet.*(recorded space|lists)"):
        read_recorded(folder)


def test_recorded_rows_without_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "recorded")
    odd = rows("fast")
    for row, time in zip(odd, (1e308, 1e-320, math.nan, None), strict=False):
        row["time_ms"] = time
    odd[4]["block"] = None
    pq.write_table(pa.Table.from_pylist(odd), folder / "toy.parquet")
    found, = recordings(folder)
    assert found.skipped == {"a time that no clock shows": 4,
                             "a configuration whose block is null, which no parameter can be": 1}
    with pytest.raises(FormatError, match="names no parameter"):
        read_recorded(write_recorded(folder, {**SPACE, "tune_params": {}}))
