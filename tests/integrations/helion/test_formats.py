"""Helion's log of a search: measured configurations of a declared kernel."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.formats.table import format_of
from seqtune.data.measured_tasks import measured_tasks
from seqtune.errors import MisuseError, SeqtuneError
from seqtune.kernels.libraries.table import use
from tests.support.winner_files import scale_library, write_helion


def read(path: Path, *devices: str, keys: tuple[str, ...] = ()) -> tuple[Dataset, dict[str, int]]:
    """The data set of a file, and the numbers of rows that were left out, by reason."""
    form = format_of("helion-csv", "read")
    assert form.read is not None
    assert form.named is not None
    result = (form.named(keys) if keys else form.read)([path], devices)
    return result.data, result.reports[0]["skipped"]


def test_times_become_measurements_of_the_declared_kernel(tmp_path: Path) -> None:
    use(scale_library())
    data, skipped = read(write_helion(tmp_path / "run.csv"))
    rows = {tuple(json.loads(str(row.configuration)).values()): (row.status, row.seconds) for row in
            data.rows.itertuples()}
    assert rows == {  # of (32, 4) the last measurement, of (64, 4) with two other settings the faster one
        (32, 4): ("correct", pytest.approx(6e-4)), (64, 4): ("correct", pytest.approx(2.5e-4)),
        (64, 2): ("runtime", float("inf")), (16, 2): ("timeout", float("inf"))}
    assert skipped == {"the status 'filtered'": 1,
                       "mine.scale: the block is higher than x (block_sizes_0 <= size_0)": 1}
    problem, = data.known_problems.values()
    assert problem.brief() == "recorded kernel=scale size_0=64 size_1=48"
    assert [device.name for device in data.devices.values()] == ["triton:h200"]
    task, = measured_tasks(data, held_out=False)
    assert task.task[int(np.nanargmin(task.seconds))].brief() == "block_sizes_0=64 num_warps=4"


def test_keys_name_the_sizes_of_the_inputs_in_order(tmp_path: Path) -> None:
    use(scale_library("rows"))
    data, _ = read(write_helion(tmp_path / "run.csv"), keys=("rows", "_columns"))
    problem, = data.known_problems.values()
    assert problem.brief() == "recorded kernel=scale rows=64"
    with pytest.raises(MisuseError, match="names 3 sizes, and 2 of the inputs are known"):
        read(tmp_path / "run.csv", keys=("rows", "columns", "depth"))


def test_without_details_the_name_of_the_file_and_the_user_tell_kernel_and_gpu(tmp_path: Path) -> None:
    use(scale_library())
    path = write_helion(tmp_path / "scale.csv", details=False)
    with pytest.raises(MisuseError, match=r"scale\.csv does not name its GPU"):
        read(path)
    with pytest.raises(MisuseError, match="AUTOTUNE_LOG_DETAILS=1 writes them"):
        read(path, "triton:h200", keys=("rows",))
    with pytest.raises(SeqtuneError, match=r"mine\.scale needs to know size_0"):
        read(path, "triton:h200")


def test_a_kernel_that_is_not_declared_is_one_line_that_says_what_to_declare(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_helion(tmp_path / "run.csv")
    assert main(["import", "helion-csv", str(path), "--out", str(tmp_path / "out.parquet")]) == 2
    said = capsys.readouterr().err
    assert "the kernel 'scale' is not declared; --library names a library file with [kernels.scale]" in said
    assert said.count("\n") == 1


def test_a_config_is_read_as_literals_alone(tmp_path: Path) -> None:
    use(scale_library())
    path = write_helion(tmp_path / "run.csv")
    text = path.read_text(encoding="utf-8")
    for config in ("Config(block_sizes=[open('x')], num_warps=4)", "f(num_warps=4)", "Config(" * 3000, "Config(4)"):
        path.write_text(text.replace("Config(block_sizes=[128], loop_orders=[[0, 1]], num_warps=4, pid_type='flat')",
                                     config), encoding="utf-8")
        assert read(path)[1]["no configuration of Helion's"] == 1
    path.write_text(text.replace("block_sizes=[128]", "block_sizes=[]"), encoding="utf-8")
    assert read(path)[1]["no value of block_sizes_0"] == 1


SCALE_ROWS = (  # run_id, seconds since the search began, milliseconds, block
    ("r1", "0.90", "0.010000", 16), ("r1", "1.10", "0.020000", 32),
    ("r2", "0.40", "7.000000", 16), ("r2", "0.80", "3.000000", 32), ("r2", "0.90", "9.000000", 64))


def write_searches(path: Path, rows: Iterable[Sequence[object]] = SCALE_ROWS) -> Path:
    """Write a log of several searches of the kernel `scale`, without details."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("run_id,timestamp_s,config_id,generation,status,perf_ms,compile_time_s,config\n" + "".join(
        f'{run},{time},c,0,ok,{perf},0.40,"Config(block_sizes=[{block}], num_warps=4)"\n'
        for run, time, perf, block in rows), encoding="utf-8")
    return path


def times(data: Dataset) -> dict[str, list[Any]]:
    """The milliseconds of each problem."""
    return {data.known_problems[str(key)].brief(): [pytest.approx(1e3 * time) for time in rows["seconds"]]
            for key, rows in data.rows.groupby("problem", sort=False)}


@pytest.mark.parametrize("names", [("r1", "r2"), ("", "")])
def test_searches_of_one_problem_are_a_problem_each(names: tuple[str, str], tmp_path: Path) -> None:
    """Without a run_id the clock tells them apart, since it begins anew."""
    use(scale_library("128"))
    run = dict(zip(("r1", "r2"), names, strict=True))
    path = write_searches(tmp_path / "scale.csv", [(run[name], *rest) for name, *rest in SCALE_ROWS])
    data, _ = read(path, "triton:h200")
    first, second = names if names[0] else ("1", "2")
    assert times(data) == {f"recorded kernel=scale search={first}": [0.01, 0.02],
                           f"recorded kernel=scale search={second}": [7.0, 3.0, 9.0]}
