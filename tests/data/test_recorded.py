"""Recordings of other tools become data sets: recorded spaces, Kernel Tuner's caches, T4 results."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.formats.foreign_records import Recorded, Row, setting, to_dataset
from seqtune.data.formats.kernel_tuner import read_cache
from seqtune.data.formats.recorded_spaces import read_recorded, recordings
from seqtune.data.formats.t4 import read_t4, results
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import FormatError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.problem import Problem
from seqtune.kernels.space import SearchSpace
from seqtune.learning import read_dataset
from seqtune.strategy_replay import tasks
from tests.support.recorded_files import (
    CONFIGURATIONS,
    SPACE,
    VALUES,
    cache,
    milliseconds,
    rows,
    write_cache,
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


def test_a_file_alone_tells_its_space_by_its_metadata(tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "recorded")
    (folder / "spaces.json").unlink()
    assert read_dataset(folder / "toy.parquet").kernels == read_dataset(write_recorded(folder)).kernels


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


@pytest.mark.parametrize("name", ["A100.json", "A100.json.gz"])
def test_a_cache_of_kernel_tuners_is_read_compressed_or_not(tmp_path: Path, name: str) -> None:
    found = read_cache(write_cache(tmp_path / name))
    assert (found.kernel, found.device, found.skipped) == ("toy", "The Fast One", {})
    data = to_dataset([found], "kernel-tuner")
    assert times(data, "recorded:The-Fast-One") == pytest.approx(
        {key(*one): milliseconds(*one[:3]) * 1e-3 for one in CONFIGURATIONS})
    assert set(data.rows["samples"]) == {2}
    assert data.rows["build_seconds"].to_numpy() == pytest.approx(5e-3)


def test_a_device_without_a_name_is_called_as_its_file_or_as_the_user_says(tmp_path: Path) -> None:
    path = write_cache(tmp_path / "MI250X.json.gz", "odd")
    assert read_cache(path).device == "MI250X"
    assert read_cache(path, "gfx90a").device == "gfx90a"
    assert sum(row.status is Status.RUNTIME for row in read_cache(path).rows) == 5


def test_the_cache_of_a_run_that_was_cut_off_is_read(tmp_path: Path) -> None:
    text = json.dumps(cache())
    (tmp_path / "cut.json").write_text(text[:-2] + ",")
    assert len(read_cache(tmp_path / "cut.json").rows) == len(CONFIGURATIONS)


@pytest.mark.parametrize(("content", "says"), [
    (b"", "not JSON"), (b"[1]", "no JSON object"), (b"{}", "no cache"), (b"[" * 100_000, "not JSON"),
    (b'{"cache": {"1": {"a": 1, "score": 3}}, "tune_params_keys": ["a"], "objective": "score"}', "no time"),
    (b'{"cache": {}, "tune_params_keys": [3]}', "no cache"),
    (b"\x1f\x8bnonsense", "gzip"), (gzip.compress(b"{}")[:-4], "gzip"), (b"\xff\xfe{}", "not JSON"),
])
def test_what_is_no_cache_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(FormatError, match=says) as caught:
        read_cache(tmp_path / "a.json")
    assert "a.json" in str(caught.value)


def test_rows_without_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    content = cache()
    entries = iter(content["cache"].values())
    next(entries)["time"] = -1.0
    next(entries)["time"] = "SomethingNew"
    next(entries).pop("block")
    (tmp_path / "a.json").write_text(json.dumps(content))
    found = read_cache(tmp_path / "a.json")
    assert found.skipped == {
        "neither a time nor a failure that is known": 2, "a configuration without its parameters": 1}
    assert len(found.rows) == len(CONFIGURATIONS) - 3


@pytest.mark.parametrize("time", [10**400, 1e300, 1e-300, math.inf, math.nan, True])
def test_a_number_that_no_clock_shows_is_no_time(tmp_path: Path, time: float) -> None:
    content = cache()
    next(iter(content["cache"].values()))["time"] = time
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert read_cache(tmp_path / "a.json").skipped == {"neither a time nor a failure that is known": 1}


def test_a_size_that_is_no_number_is_a_word(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**cache(), "problem_size": [True]}))
    data = to_dataset([read_cache(tmp_path / "a.json")], "kernel-tuner")
    assert [problem.key for problem in data.problems()] == ["recorded kernel=toy size=True"]


@pytest.mark.parametrize(("column", "value"), [
    ("device", ["fast"]), ("status", {"word": "ok"}), ("time_ms", "soon"), ("n_runs", "many"), ("compile_ms", [1.0])])
def test_a_column_of_another_type_is_refused(tmp_path: Path, column: str, value: object) -> None:
    folder = write_recorded(tmp_path / "recorded")
    table = pa.Table.from_pylist([{**row, column: value} for row in rows("fast")])
    pq.write_table(table, folder / "toy.parquet")
    with pytest.raises(FormatError, match=r"toy\.parquet is no Parquet file of a recorded space"):
        read_recorded(folder)


def test_caches_of_several_devices_share_their_kernel_and_others_are_told_apart(tmp_path: Path) -> None:
    both = [read_cache(write_cache(tmp_path / f"{device}.json", device)) for device in ("fast", "odd")]
    data = to_dataset(both, "kernel-tuner")
    assert list(data.kernels) == ["recorded.toy"]
    assert {device.name for device in data.devices.values()} == {"recorded:The-Fast-One", "recorded:odd"}
    other = Recorded("b.json", "toy", "x", {"width": [1]}, rows=[Row((1,), Status.CORRECT, 1.0)])
    with pytest.raises(FormatError, match=r"b\.json declares another kernel toy"):
        to_dataset([*both, other], "kernel-tuner")


def test_what_two_files_tell_is_kept_once_whatever_the_order_of_their_parameters(tmp_path: Path) -> None:
    content = cache()
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(content))
        content["tune_params_keys"].reverse()
    data = to_dataset([read_cache(tmp_path / name) for name in ("a.json", "b.json")], "kernel-tuner")
    assert times(data, "recorded:The-Fast-One").keys() == {key(*one) for one in CONFIGURATIONS}
    assert len(data.rows) == len(CONFIGURATIONS)


def test_values_of_other_tools_become_numbers_or_words() -> None:
    assert [setting(value) for value in (True, 4.0, 0.5, "row", 3)] == [1, 4, "0.5", "row", 3]
    with pytest.raises(FormatError):
        setting(None)


DEVICE = Device("llvm:avx7:3", "llvm", "x86-64", "sse", model="a CPU", toolchain="of old")
PROBLEM = Problem.make("gemm", m=3, n=4, k=5)


def record(tile: int, measurement: Measurement, kernel: str = "llvm.gemm") -> Record:
    return Record(PROBLEM, DEVICE.key, 1, Configuration(kernel, (("tile", tile), ("body", "row"))), "of old",
                  measurement, when=1e9, run="random")


RECORDS = [record(1, Measurement(Status.CORRECT, (2e-3, 1e-3), 1e-7, 0.25)),
           record(2, Measurement(Status.COMPILE, message="no")), record(4, Measurement(Status.CRASH)),
           record(8, Measurement(Status.TIMEOUT))]


def test_t4_goes_out_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "t4.json"
    written = results(RECORDS, PROBLEM, DEVICE)
    path.write_text(json.dumps(written, allow_nan=False))
    assert written["schema_version"] == "1.0.0"
    for one in written["results"]:  # what the schema demands
        assert {"configuration", "times", "invalidity", "correctness"} <= set(one)
        assert one["invalidity"] in ("timeout", "compile", "runtime", "correctness", "constraints", "correct")
    found = read_t4(path)
    assert (found.kernel, found.device, found.model) == ("llvm.gemm", "llvm:avx7:3", "a CPU")
    assert [row.settings for row in found.rows] == [(tile, "row") for tile in (1, 2, 4, 8)]
    assert [row.status for row in found.rows] == [Status.CORRECT, Status.COMPILE, Status.RUNTIME, Status.TIMEOUT]
    assert found.rows[0].seconds == pytest.approx(1e-3)
    assert found.rows[0].samples == 2
    assert found.rows[0].build_seconds == pytest.approx(0.25)


def test_competing_kernel_families_are_a_parameter_of_t4() -> None:
    written = results([*RECORDS[:1], record(1, RECORDS[0].measurement, "llvm.other")], PROBLEM, DEVICE)
    assert [one["configuration"]["kernel"] for one in written["results"]] == ["llvm.gemm", "llvm.other"]


def test_t4_results_of_kernel_tuner_are_read(tmp_path: Path) -> None:
    path = tmp_path / "conv_A100.json"

    def result(tile: int, word: str, **more: Any) -> dict[str, Any]:
        return {"configuration": {"tile": tile}, "times": {"compilation": 40.0, "runtimes": [4.0, 2.0]},
                "invalidity": word, "correctness": 1, "objectives": ["time"], **more}

    path.write_text(json.dumps({"schema_version": "1.0.0", "metadata": {"timeunit": "miliseconds"}, "results": [
        result(1, "correct", measurements=[{"name": "time", "value": 2.5, "unit": "ms"}]),
        result(2, "correct"), result(4, "constraints"), result(8, "magic"), {"configuration": {}}, 3]}))
    found = read_t4(path, "A100")
    assert (found.kernel, found.device) == ("conv_A100", "A100")
    assert [row.seconds for row in found.rows] == pytest.approx([2.5e-3, 3e-3, np.inf])
    assert sum(found.skipped.values()) == 3
    for content, says in (("{}", "no file of T4"), ('{"results": []}', "no time"),
                          ('{"results": [], "metadata": {"timeunit": "minutes"}}', "times in 'minutes'")):
        path.write_text(content)
        with pytest.raises(FormatError, match=says):
            read_t4(path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """A command that must succeed; its JSON object."""
    def call(*arguments: object) -> dict[str, Any]:
        assert main([*map(str, arguments), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert isinstance(found, dict)
        return found

    return call


def test_the_command_line_imports_every_format(
        tmp_path: Path, run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    caches, out = tmp_path / "caches", tmp_path / "out.parquet"
    caches.mkdir()
    write_cache(caches / "fast.json")
    write_cache(caches / "odd.json.gz", "odd")
    found = run("import", "kernel-tuner", caches, "--out", out)
    assert (found["records"], len(found["files"])) == (2 * len(CONFIGURATIONS), 2)
    assert len(Dataset.read(out)) == 2 * len(CONFIGURATIONS)
    (tmp_path / "t4.json").write_text(json.dumps(results(RECORDS, PROBLEM, DEVICE)))
    assert run("import", "t4", tmp_path / "t4.json", "--out", tmp_path / "t4.parquet")["records"] == len(RECORDS)
    recorded = write_recorded(tmp_path / "recorded")
    assert run("import", "recorded", recorded, "--out", out, "--force")["records"] == sum(
        row["measured"] for device in ("fast", "odd") for row in rows(device))
    assert main(["import", "kernel-tuner", str(caches), "--out", str(out)]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["import", "recorded", str(recorded), "--out", str(out), "--force"]) == 0
    assert "left out" in capsys.readouterr().out


def test_the_command_line_exports_t4_of_a_journal(
        tmp_path: Path, run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    with Journal(tmp_path / "j.sqlite") as journal:
        journal.add_device(DEVICE)
        for one in RECORDS:
            journal.add(one)
    found = run("export", "--format", "t4", "--journal", tmp_path / "j.sqlite", "--out", tmp_path / "t4.json")
    assert (found["results"], found["problem"]) == (len(RECORDS), PROBLEM.key)
    first = read_t4(tmp_path / "t4.json").rows[0]
    assert first.seconds == pytest.approx(1e-3)
    assert first.samples == 2
    for more, says in ((["--problem", "gemm m=9 n=9 k=9"], "no trial of gemm m=9"), (["--hold-out", "x"], "T4"),
                       (["--device", "abacus"], "no device 'abacus'")):
        assert main(["export", "--format", "t4", "--journal", str(tmp_path / "j.sqlite"), "--out",
                     str(tmp_path / "other.json"), *more]) == 2
        assert says in capsys.readouterr().err
    assert main(["export", "--problem", "gemm m=9 n=9 k=9", "--out", str(tmp_path / "x.parquet")]) == 2


def test_recorded_kernels_are_tuned_by_replay_like_any_other(
        tmp_path: Path, run: Callable[..., dict[str, Any]]) -> None:
    folder = write_recorded(tmp_path / "recorded")
    found = run("tune", "recorded", "kernel=toy", "size_x=640", "size_y=480", "--strategy", "exhaustive", "--replay",
                folder, "--device", "recorded:fast")
    result, = found["results"]
    assert result["best"]["configuration"] == {"block": 64, "tile": 2, "order": 1, "fixed": 7}
    assert (result["trials"], result["failed"]) == (len(CONFIGURATIONS), 0)


@pytest.mark.parametrize(("change", "says"), [
    ({"tune_params_keys": ["block", "block"]}, "names a parameter twice"),
    ({"tune_params_keys": []}, "names no parameter"),
    ({"tune_params": {**VALUES, "tile": [[1]]}}, "is no cache"),
    ({"tune_params_keys": [*VALUES, "a b"], "cache": {"1": {**dict.fromkeys(VALUES, 1), "a b": 1, "time": 1.0}}},
     "'a b' is no name")])
def test_a_cache_whose_parameters_make_no_sense_is_one_line_that_names_it_once(
        tmp_path: Path, change: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.json").write_text(json.dumps({**cache(), **change}))
    assert main(["import", "kernel-tuner", str(tmp_path / "odd.json"), "--out", str(tmp_path / "out.parquet")]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert (said.count("odd.json"), said.count("\n")) == (1, 1)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize("change", [
    {"device_name": "\ud800 x"}, {"kernel_name": "\ud800"}, {"kernel_name": "Unknown"}, {"kernel_name": 12},
    {"problem_size": ["\ud800"]}, {"problem_size": [10**400]}])
def test_words_and_numbers_that_no_file_can_hold_are_read_again(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({**cache(), **change}))
    to_dataset([read_cache(tmp_path / "a.json")], "kernel-tuner").write(tmp_path / "out.parquet")
    task, = tasks(read_dataset(tmp_path / "out.parquet"))
    assert len(task.seconds) == len(CONFIGURATIONS)


def test_recorded_rows_without_sense_are_counted_and_left_out(tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "recorded")
    odd = rows("fast")
    for row, time in zip(odd, (1e308, 1e-320, math.nan, None), strict=False):
        row["time_ms"] = time
    odd[4]["block"] = None
    pq.write_table(pa.Table.from_pylist(odd), folder / "toy.parquet")
    found, = recordings(folder)
    assert found.skipped == {"a time that no clock shows": 4, "a configuration without its parameters": 1}
    with pytest.raises(FormatError, match="names no parameter"):
        read_recorded(write_recorded(folder, {**SPACE, "tune_params": {}}))


def test_of_two_caches_of_one_kernel_and_device_the_first_counts_and_the_rest_is_said(
        tmp_path: Path, run: Callable[..., dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    content = cache()
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(content))
        next(iter(content["cache"].values()))["time"] = 9.0
    paths = [str(tmp_path / name) for name in ("a.json", "b.json")]
    found = run("import", "kernel-tuner", *paths, "--out", tmp_path / "out.parquet")
    count = len(CONFIGURATIONS)
    assert [one["rows"] for one in found["files"]] == [count, 0]
    assert found["files"][1]["skipped"] == {"a configuration that was told before": count}
    assert main(["import", "kernel-tuner", *paths, "--out", str(tmp_path / "out.parquet"), "--force"]) == 0
    assert f"b.json: left out {count}" in capsys.readouterr().out


@pytest.mark.parametrize("form", ["parquet", "t4"])
@pytest.mark.parametrize("made", [True, False])
def test_a_journal_without_trials_is_one_line(
        tmp_path: Path, form: str, made: bool, capsys: pytest.CaptureFixture[str]) -> None:
    if made:
        Journal(tmp_path / "empty.sqlite").close()
    else:
        (tmp_path / "empty.sqlite").touch()
    assert main(["export", "--format", form, "--journal", str(tmp_path / "empty.sqlite"),
                 "--out", str(tmp_path / "out")]) == 2
    assert "empty.sqlite holds no trials" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert bool((tmp_path / "empty.sqlite").stat().st_size) == made
