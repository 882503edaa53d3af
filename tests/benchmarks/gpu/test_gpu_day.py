"""Tests of a GPU day without a GPU: its dry run from end to end, and the parts that plan and store it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.program import run_program
from benchmarks.gpu import collecting, gpu_day, home
from benchmarks.gpu.contests.heuristics import gpu_of
from benchmarks.gpu.day import DRY_SIZES, Day, DayState
from benchmarks.gpu.environment import PACKAGES, missing
from benchmarks.gpu.shapes import convolutions, products
from benchmarks.gpu.slices import SLICES, Slice, SliceOutcome
from benchmarks.gpu.stand_in import stand_in_of
from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.errors import FormatError, InterruptedTuning, MisuseError, SeqtuneError, UnavailableError
from seqtune.kernels.devices.accelerators import described
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem_sets.similarity import near
from tests.support.installation.optional import needs
from tests.support.paths import ROOT

DEVICE = described("cuda", "h200")
DRY_RUN = [sys.executable, "-m", "benchmarks", "gpu_day", "--dry-run", "--out"]
KILLED_IN = "conv-fp32"  # a slice that always has kernels


def day_in(folder: Path, dry: bool = True) -> Day:
    """A dry day in a folder."""
    assert isinstance(DEVICE, Device)
    return Day(folder, stand_in_of(DEVICE) if dry else DEVICE, dry, DRY_SIZES)


def count(path: Path) -> int:
    """The number of records in a journal that another process may be writing."""
    if not path.exists():
        return 0
    with Journal(path) as journal:
        return len(list(journal.records()))


@pytest.mark.slow
@needs("torch")
def test_a_dry_run_that_is_killed_goes_on_and_brings_marked_files_home(tmp_path: Path) -> None:
    folder = tmp_path / "day"
    journal = folder / "journals" / f"{KILLED_IN}.sqlite"
    killed = subprocess.Popen([*DRY_RUN, str(folder), "--only", KILLED_IN, "--pause", "0.1"], cwd=ROOT,
                              stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 60
    while count(journal) < 10 and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    with Journal(journal) as records:
        before = {record.identity: record.when for record in records.records()}
    assert before
    assert not (folder / "home").exists()

    done = subprocess.run([*DRY_RUN, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with Journal(journal) as records:
        after = {record.identity: record.when for record in records.records()}
    assert before.items() < after.items()  # what was measured before the kill was kept, and not measured again
    state = json.loads((folder / "state.json").read_text())
    assert {entry["state"] for entry in state["slices"].values()} <= {"done", "skipped"}
    assert state["slices"].keys() == {item.name for item in SLICES}
    check_marks(folder)


def check_marks(folder: Path) -> None:
    """Every file of a dry run says that it is one, is small, and cannot be trained on or shipped."""
    from seqtune import api

    texts = [*folder.glob("*.json"), *folder.glob("results/*.json"), *folder.glob("home/*.json")]
    assert len(texts) > len(SLICES) / 2
    assert [path.name for path in texts if "not measurements" not in json.loads(path.read_text())["dry_run"]] == []
    files = [*(folder / "home").iterdir()]
    assert len(files) <= 8
    for path in files:
        assert path.stat().st_size <= home.LARGEST
        assert path.name.startswith("dry-run-")
    tables = [path for path in files if path.suffix == ".parquet"]
    assert tables
    for path in tables:
        data = Dataset.read(path)
        assert "dry_run" in data.provenance
        assert all(device.name.endswith(":stand-in") for device in data.devices.values())
        assert set(data.rows["toolchain"]) == {"stand-in"}
        with pytest.raises(MisuseError, match="dry run"):
            home.check_shippable(path)
        with pytest.raises(MisuseError, match="dry run"):
            api.train(path, folder / "trained")
    assert not (folder / "checkpoint").exists()


def test_no_shipped_data_is_of_a_dry_run() -> None:
    assert "dry_run" not in Dataset.shipped().provenance


def run_toys(monkeypatch: pytest.MonkeyPatch, folder: Path, **programs: Any) -> tuple[list[str], DayState]:
    """Run slices made of functions; the names of the failed ones, and the state."""
    slices = [Slice(name, "toy", 10, name) for name in programs]
    monkeypatch.setattr(Slice, "run", lambda self, day: programs[self.name]())
    day = day_in(folder)
    state = DayState(day)
    return gpu_day.run_slices(day, state, slices, 1.0, time.monotonic() + 100), DayState(day)


def test_a_slice_that_fails_is_reported_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> SliceOutcome:
        raise SeqtuneError("the driver refused")

    def lack() -> SliceOutcome:
        raise UnavailableError("no such tool")

    failed, state = run_toys(monkeypatch, tmp_path, a=fail, b=lack, c=lambda: SliceOutcome(True, "fine", {"x": 1}),
                             d=lambda: SliceOutcome(False, "half", {}), e=lambda: SliceOutcome(True, "9", {}, True))
    assert failed == ["a", "e"]
    assert [state.get(name) for name in "abcde"] == ["failed", "skipped", "done", "partial", "failed"]
    assert json.loads((tmp_path / "results" / "c.json").read_text())["x"] == 1
    calls: list[str] = []

    def again(name: str) -> SliceOutcome:
        calls.append(name)
        return SliceOutcome(True, "now", {})

    run_toys(monkeypatch, tmp_path, **{name: lambda name=name: again(name) for name in "abcde"})
    assert calls == ["a", "b", "d", "e"]  # whatever is not done has another turn


def test_a_stopped_slice_is_partial_and_the_day_says_how_to_go_on(tmp_path: Path,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    def stop() -> SliceOutcome:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedTuning, match="run again"):
        run_toys(monkeypatch, tmp_path, a=stop)
    assert DayState(day_in(tmp_path)).get("a") == "partial"


def test_a_folder_is_of_one_device_and_kind(tmp_path: Path) -> None:
    DayState(day_in(tmp_path))
    with pytest.raises(MisuseError, match="holds a dry run"):
        DayState(day_in(tmp_path, dry=False))
    day = day_in(tmp_path)
    with pytest.raises(MisuseError, match="another folder"):
        DayState(replace(day, device=replace(day.device, compute_units=1)))
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(MisuseError, match="not a JSON object"):
        DayState(day)


def run_program_with(*arguments: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the program in this process; its exit status and the lines of its standard error."""
    monkeypatch.setattr(sys, "argv", ["gpu_day", *arguments])
    with pytest.raises(SystemExit) as ended:
        run_program("gpu_day", gpu_day.main)
    return ended.value.code, capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("arguments", [
    ("--only", "nope"), ("--check", "nope.parquet"), ("--device", "nope"), ("--minutes", "0"), ("--minutes", "-1"),
    ("--minutes", "nan"), ("--shapes", "x"), ("--nope", "a\nb")])
def test_a_misuse_is_one_line_and_exit_status_2(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run_program_with(*arguments, monkeypatch=monkeypatch, capsys=capsys)
    assert code == 2
    assert len(lines) == 1
    assert lines[0].startswith("gpu_day: ")


def test_a_named_slice_that_is_skipped_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run_program_with("--dry-run", "--only", "sanitizer", "--out", str(tmp_path), monkeypatch=monkeypatch,
                                   capsys=capsys)
    assert code == 1
    assert "sanitizer" in lines[-1]


@pytest.mark.parametrize("file", [".", "home", "journals"])
def test_a_file_in_the_place_of_a_folder_is_one_line(file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "day" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    code, lines = run_program_with("--dry-run", "--only", "environment", "--out", str(tmp_path / "day"),
                                   monkeypatch=monkeypatch, capsys=capsys)
    assert code in (1, 2)
    assert len(lines) == 1


@pytest.mark.parametrize("content", [
    "[" * 5000, '{"x": NaN}', '{"x": 1e999}', *(f"""{{"version": 1, "dry_run": "x", "device": "DEVICE", "slices":
    {{"a": {entry}}}}}""" for entry in ("1", '{"state": "done", "turns": 1, "seconds": "x"}', "{}", f"""{{"turns": 1,
    "state": "done", "seconds": 1{"0" * 400}}}""", '{"state": "done", "turns": "x", "seconds": 1}'))])
def test_a_damaged_state_is_refused_with_a_reason(content: str, tmp_path: Path) -> None:
    day = day_in(tmp_path)
    (tmp_path / "state.json").write_text(content.replace("DEVICE", day.device.key))
    with pytest.raises(FormatError, match=r"not JSON|damaged"):
        DayState(day)


def test_a_folder_is_worked_in_by_one_process_which_removes_half_written_files(tmp_path: Path) -> None:
    day = day_in(tmp_path)
    left = day.path("journals", ".gemm-fp16.sqlite.0.new")
    left.touch()
    with day.held():
        assert not left.exists()
        with pytest.raises(SeqtuneError, match="another process"), day.held():
            pass
    with day.held():
        pass


def test_a_package_is_missing_only_if_no_form_of_it_is_installed() -> None:
    versions = dict.fromkeys((name for names in PACKAGES for name in names.split()), "1")
    assert missing({**versions, "xgboost": None}) == []
    assert missing({**versions, "xgboost": None, "xgboost-cpu": None}) == ["xgboost-cpu"]


def test_no_training_problem_is_near_a_held_out_one() -> None:
    for problems in (products("bf16", 250), convolutions("fp16", (1, 16), 100)):
        held_out = [problem for problem in problems.ordered if problem.key in problems.held_out]
        training = [problem for problem in problems.ordered if problem.key not in problems.held_out]
        assert len(held_out) > len(training) / 6
        assert not any(near(problem, other) for problem in training for other in held_out)
    assert 230 <= len(products("bf16", 250).ordered) <= 250


def test_a_large_data_set_is_cut_into_files_that_are_small_enough(tmp_path: Path) -> None:
    shipped = Dataset.shipped()
    rows = shipped.rows.iloc[:4000]
    data = home.of_devices(replace(shipped, rows=rows), rows["device"].unique())
    data.write(tmp_path / "whole.parquet")
    most = (tmp_path / "whole.parquet").stat().st_size * 2 // 3
    paths = home.write_parts(data, tmp_path / "cut.parquet", most)
    assert len(paths) > 1
    assert not (tmp_path / "cut.parquet").exists()
    assert all(path.stat().st_size <= most for path in paths)
    assert sum(len(Dataset.read(path)) for path in paths) == len(data)


@pytest.mark.parametrize(("model", "name"), [
    ("NVIDIA H200", "H200_SXM"), ("NVIDIA H100 80GB HBM3", "H100_SXM"), ("NVIDIA A100-SXM4-80GB", "A100_SXM_80GB"),
    ("NVIDIA L4", "L4"), ("NVIDIA GeForce RTX 4090", "RTX_4090"), ("NVIDIA T4", None)])
def test_gpus_are_found_among_the_names_of_the_peer(model: str, name: str | None) -> None:
    names = ["A100_PCIE_80GB", "A100_SXM_80GB", "H100_NVL", "H100_PCIE", "H100_SXM", "H200_SXM", "L4", "L40", "L40S",
             "RTX_4090", "RTX_5090", "END"]
    assert gpu_of(model, names) == name


def test_a_day_goes_on_from_what_was_brought_home(tmp_path: Path) -> None:
    day = day_in(tmp_path / "there")
    DayState(day)
    day.write_result("conv-fp32", collecting.conv(day, "conv-fp32").result)
    home.bring_home(day)
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "home").rename(tmp_path / "here" / "home")
    again = day_in(tmp_path / "here")
    assert home.restore(again)
    assert count(tmp_path / "here" / "journals" / "conv-fp32.sqlite") == count(
        tmp_path / "there" / "journals" / "conv-fp32.sqlite") > 0
    assert again.result("conv-fp32") == day.result("conv-fp32")
    assert home.restore(again) == []  # what is there already is not read again
