"""Results of triton.autotune become data sets."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from seqtune.__main__ import main
from seqtune.data.dataset import Dataset
from seqtune.data.record import Status
from seqtune.errors import FormatError
from seqtune.integrations.triton.formats import read_autotune
from seqtune.kernels.task import Task

KEY = [512, 1024, 256, "torch.float16", "torch.float16", "torch.float32"]


def config(block: int, warps: int = 4, **more: Any) -> dict[str, Any]:
    return {"kwargs": {"BLOCK": block, "EVEN": True}, "num_warps": warps, "num_ctas": 1, "num_stages": 3,
            "maxnreg": None, "pre_hook": None, "ir_override": None, **more}


def write(path: Path, key: list[Any] = KEY, timings: list[Any] | None = None) -> Path:
    listed = [[config(64), [0.5, 0.4, 0.6]], [config(128, 8), [0.25, 0.25, 0.3]], [config(256), [math.inf] * 3]]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"key": key, "configs_timings": listed if timings is None else timings}))
    return path


def test_a_folder_of_results_becomes_a_data_set_of_declared_kernels(tmp_path: Path,
                                                                    capsys: pytest.CaptureFixture[str]) -> None:
    for number, m in enumerate((512, 777)):
        write(tmp_path / f"HASH{number}" / "matmul.autotune.json", [m, *KEY[1:]])
    out = tmp_path / "data.parquet"
    assert main(["import", "triton", str(tmp_path), "--device", "triton:h200", "--keys", "M,N,K",
                 "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == 6
    data = Dataset.read(out)
    (device,), (kernel,) = data.devices.values(), data.kernels.values()
    assert (device.name, kernel.name, kernel.backends) == ("triton:h200", "recorded.matmul", ("triton",))
    assert {parameter.name: parameter.values for parameter in kernel.parameters} == {
        "BLOCK": (64, 128, 256), "EVEN": (1,), "num_warps": (4, 8), "num_stages": (3,)}
    problem = next(problem for problem in data.known_problems.values() if problem["M"] == 777)
    assert dict(problem) == {"kernel": "matmul", "M": 777, "N": 1024, "K": 256, "dtype": "float16",
                             "dtypes": "float16-float16-float32"}
    assert len(Task.of(problem, device, [kernel])) == 6
    assert sorted(set(data.rows["seconds"].astype(float))) == pytest.approx([0.25e-3, 0.5e-3, math.inf])
    assert list(data.rows["status"]).count(Status.RUNTIME.value) == 2


def test_files_of_one_name_are_told_apart_by_folder_and_problem(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, m in enumerate((512, 777)):
        write(tmp_path / f"HASH{number}" / "matmul.autotune.json", [m, *KEY[1:]],
              [[config(64), [0.5]], [config(128), [-1.0]]])
    words = ["import", "triton", str(tmp_path), "--device", "triton:h200", "--keys", "M,N,K", "--force", "--out",
             str(tmp_path / "data.parquet")]
    assert main([*words, "--json"]) == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert [file["path"] for file in files] == [
        str(tmp_path / f"HASH{number}" / "matmul.autotune.json") for number in (0, 1)]
    assert [file["problem"] for file in files] == [
        f"M={m} N=1024 K=256 dtype=float16 dtypes=float16-float16-float32" for m in (512, 777)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "autotune.json" not in shown
    assert "matmul M=777 N=1024 K=256 dtype=float16 dtypes=float16-float16-float32: left out 1" in shown


def test_options_that_some_configurations_set_are_parameters_of_all(tmp_path: Path) -> None:
    records = read_autotune(write(tmp_path / "x.autotune.json", timings=[
        [config(64), [1, 1, 1]], [config(64, maxnreg=128, num_ctas=2), [2, 2, 2]],
        [config(64, ir_override="mine.ptx"), [1, 1, 1]], [{"kwargs": {"BLOCK": [1]}}, [1, 1, 1]], ["?", 3],
        [{"kwargs": {}, "num_warps": 4}, [1, 1, 1]], [config(32), [True, 1, 1]], [config(10**400), [1, 1, 1]],
        [{"kwargs": {"a b": 1}}, [1, 1, 1]]]))
    settings = [dict(zip(records.parameters, row.settings, strict=True)) for row in records.rows]
    assert [(values["num_ctas"], values["maxnreg"]) for values in settings] == [(1, 0), (2, 128)]
    assert sum(records.skipped.values()) == 7


def test_damaged_files_of_a_folder_are_left_out_counted_and_named(tmp_path: Path,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / name / "f.autotune.json")
    (tmp_path / "b" / "f.autotune.json").write_text("{")
    out = tmp_path / "data.parquet"
    command = ["import", "triton", str(tmp_path), "--device", "TRITON:H200", "--out", str(out)]
    assert main(command) == 0
    notes = capsys.readouterr().err
    assert "left out 1 of 3 files" in notes
    assert str(tmp_path / "b" / "f.autotune.json") in notes
    out.unlink()
    for name in ("a", "c"):
        (tmp_path / name / "f.autotune.json").write_text("{}")
    assert main(command) == 2
    refusal = capsys.readouterr().err
    assert (refusal.count("\n"), out.exists()) == (1, False)
    assert "no other of 3 files is readable" in refusal


@pytest.mark.parametrize("content", ['{"key": 3, "configs_timings": []}', '{"key": []}', "[]", "{",
                                     '{"key": [], "configs_timings": [[[[]], NaN]]}'])
def test_another_file_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.autotune.json").write_text(content)
    with pytest.raises(FormatError, match=r"^\S[^\n]*x\.autotune\.json [^\n]*$"):
        read_autotune(tmp_path / "x.autotune.json")


@pytest.mark.parametrize(("options", "reason"), [
    ([], "do not name their GPU"), (["--device", "triton:z9"], "no GPU 'triton:z9' is described"),
    (["--device", "cuda:h200"], "such as triton:h200, not of cuda:h200"),
    (["--device", "h200", "--keys", "M,M"], "not a list of different names")])
def test_a_misuse_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str],
                              reason: str) -> None:
    path = write(tmp_path / "x.autotune.json")
    assert main(["import", "triton", str(path), "--out", str(tmp_path / "out.parquet"), *options]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(("value", "kind"), [(None, "null"), ([1, 2], "a list"), ({"a": 1}, "an object"),
                                             (2**60, "a number of 2**53 or more")])
def test_a_setting_that_no_parameter_can_be_is_named(value: object, kind: str, tmp_path: Path) -> None:
    timings = [[{"kwargs": {"BLOCK": block, "ACC": value}, "num_warps": 4}, [0.5]] for block in (16, 32)]
    reason = f"a configuration whose ACC is {kind}, which no parameter can be"
    with pytest.raises(FormatError, match=re.escape(f"no time of its 2 configurations (2 left out: {reason})")):
        read_autotune(write(tmp_path / "a.autotune.json", timings=timings))
    found = read_autotune(write(tmp_path / "a.autotune.json", timings=[*timings, [config(64), [0.5]]]))
    assert found.skipped == {reason: 2}
