"""The replay command, and the data sets that it reads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from seqtune.__main__ import main
from seqtune.api.replaying import recorded_spaces, replay
from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.data.journal.journal import Journal
from seqtune.errors import MisuseError
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.tuner.run.simulation import RecordedSpace
from tests.support.command_line import Refused, Run
from tests.support.recorded_files import SPACE, write_recorded
from tests.support.records import DEVICE, space_records, write_journal


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recorded(tmp_path_factory.mktemp("data") / "recorded")


@pytest.fixture
def fast(folder: Path) -> RecordedSpace:
    recorded, = recorded_spaces(read_dataset(folder), devices=["fast"])
    return recorded


def test_what_is_not_there_is_named(folder: Path) -> None:
    data = read_dataset(folder)
    with pytest.raises(MisuseError, match="there are toy on fast, toy on odd"):
        recorded_spaces(data, spaces=["tor"])
    with pytest.raises(MisuseError, match="there are leave-device-out"):
        recorded_spaces(data, "leave-all-out")
    assert [recorded.device for recorded in recorded_spaces(data, complete=True)] == ["fast"]
    toy, = data.kernels.values()
    huge = replace(toy, parameters=tuple(replace(one, values=tuple(range(1000))) for one in toy.parameters),
                   constraints=())
    with pytest.raises(MisuseError, match="add constraints"):
        recorded_spaces(replace(data, kernels={huge.name: huge}))


def test_replay_prints_the_rows_that_were_asked_for(folder: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    found = run("replay", folder, "--strategies", "random,local", "--budgets", "0,2,5", "--repeats", "4",
                 "--jobs", "1")
    assert found["transfer"] is None
    assert [(row["device"], row["strategy"], row["budget"]) for row in found["rows"]] == [
        (device, strategy, budget) for device in ("fast", "odd") for strategy in ("random", "local")
        for budget in (0, 2, 5)]
    assert set(found["rows"][0]) == {
        "space", "device", "strategy", "budget", "share_mean", "share_sem", "repeats"}
    assert set(found["medians"][0]) == {"space", "device", "strategy", "to_95", "to_99"}
    assert all(0 <= row["share_mean"] <= 1 and row["repeats"] == 4 for row in found["rows"])
    assert main(["replay", str(folder), "--budgets", "3", "--repeats", "2", "--jobs", "1"]) == 0
    assert "share_mean" in capsys.readouterr().out


def test_replay_draws_the_curves(
        folder: Path, tmp_path: Path, refused: Refused, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", str(folder), "--budgets", "5", "--repeats", "2", "--jobs", "1", "--json", "--curves"]
    for name in ("a.svg", "b.svg"):
        assert main([*arguments, str(tmp_path / name)]) == 0
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    assert all(text in drawn for text in (">toy<", ">fast<", ">odd<", "evaluations", "portfolio", "random"))
    capsys.readouterr()
    assert "--force" in refused(*arguments, tmp_path / "a.svg")


@pytest.mark.parametrize(("arguments", "says"), [
    (["--strategies", "magic"], "no strategy 'magic'"), (["--strategies", ","], "name at least one strategy"),
    (["--budgets", "5,many"], "--budgets"), (["--budgets", ""], "name at least one budget"),
    (["--budgets", "9999999"], "budgets"),
    (["--transfer", "all"], "no transfer 'all'"), (["--spaces", "gemm"], "there are toy on fast"),
    (["--curves", "figure.txt"], "not the name of a figure"), (["--repeats", "0"], "--repeats")])
def test_a_replay_that_makes_no_sense_is_one_line(
        arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(folder), "--jobs", "1", *arguments]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_files_that_cannot_be_replayed_are_refused(tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "spaces.json").write_text("{")
    for path, says in ((tmp_path, "not JSON"), (tmp_path / "none.parquet", "none.parquet")):
        assert says in refused("replay", path)


def test_a_data_set_of_our_kernels_is_replayed_within_what_was_measured(tmp_path: Path) -> None:
    space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=16, n=16, k=16), DEVICE)
    rows = range(0, 60, 3)
    records = space_records(space, [1e-3 / (row + 1) for row in rows], rows)
    with Journal(write_journal(tmp_path / "source.sqlite", records)) as journal:
        data = Dataset.from_journal(journal, held_out=[space.problem.key])
        data.write(tmp_path / "data.parquet")
    found = replay(tmp_path / "data.parquet", strategies="random", budgets=[3, 20], repeats=2, held_out=True, jobs=1)
    curves, = found.curves
    assert (curves.space, curves.device) == (space.problem.key, DEVICE.name)
    assert found.rows()[1]["share_mean"] == 1.0  # 20 were measured
    with pytest.raises(MisuseError, match=r"of the selected spaces \(1\), none was measured completely"):
        recorded_spaces(data, complete=True)
    older = replace(data, rows=data.rows.assign(kernel_version=0))
    with pytest.raises(MisuseError, match="every record is of another version of its kernel"):
        recorded_spaces(older)


def test_held_out_spaces_are_those_that_a_replay_of_all_has(folder: Path) -> None:
    data = read_dataset(folder)
    (key,) = data.known_problems
    other = Problem.make("recorded", **{**dict(data.known_problems[key]), "n": 77})
    rows = data.rows.assign(problem=other.key)
    both = replace(data, rows=pd.concat([data.rows, rows], ignore_index=True), held_out=frozenset([key]),
                   known_problems={**data.known_problems, other.key: other})
    alone = recorded_spaces(both, held_out=True)
    among = [recorded for recorded in recorded_spaces(both) if recorded.task.problem.key == key]
    assert [(one.space, one.device) for one in alone] == [(one.space, one.device) for one in among]
    assert {one.space for one in alone} == {key}  # two problems have the kernel, so its name would not tell
    for one, same in zip(alone, among, strict=True):
        np.testing.assert_array_equal(one.measured.seconds, same.measured.seconds)
    with pytest.raises(MisuseError, match=r"\(2\), none is held out"):
        recorded_spaces(both, spaces=[other.key], held_out=True)


@pytest.mark.parametrize(("restriction", "says"), [
    ("blok < 3", "blok is no parameter, in the restriction 'blok < 3'"),
    ("block > 1000", "no configuration that satisfies 'block > 1000'"),
    ("block % 0 == 1", "no configuration that satisfies 'block % 0 == 1'")])
def test_a_restriction_that_leaves_nothing_is_named(
        tmp_path: Path, restriction: str, says: str, refused: Refused) -> None:
    folder = write_recorded(tmp_path / "recorded", {**SPACE, "restrictions": ["tile < 9", restriction]})
    said = refused("replay", folder)
    assert says in said
