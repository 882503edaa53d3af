"""Simulated searches of recorded spaces: what is counted, and that it is the same however it is run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seqtune.__main__ import main
from seqtune.cli import tables as show
from seqtune.data.dataset import Dataset
from seqtune.data.journal import Journal
from seqtune.data.record import Measurement, Record, Status
from seqtune.errors import KernelError, MisuseError
from seqtune.kernels.device import Device
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.problem import Problem
from seqtune.kernels.registry import kernel
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.union import Past
from seqtune.learning import read_dataset
from seqtune.strategy_replay import Replayed, replay, tasks
from seqtune.tuner.simulation import Curves, Search, Task, best_shares, simulate
from seqtune.tuner.strategies.random import Random
from tests.support.recorded_files import CONFIGURATIONS, SPACE, milliseconds, write_recorded

SHARED = Path(os.environ.get("SEQTUNE_RECORDED_DATA", Path(__file__).resolve().parents[3] / "shared" / "recorded"))

LLVM = Device("llvm:avx7:3", "llvm", "x86-64", "sse", threads=3, toolchain="of old")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_recorded(tmp_path_factory.mktemp("data") / "recorded")


@pytest.fixture
def fast(folder: Path) -> Task:
    task, = tasks(read_dataset(folder), devices=["fast"])
    return task


class Greedy:
    """Proposes what its history says was fastest, in that order; records what it is told."""

    takes_history = True

    def __init__(self, spaces: Sequence[SearchSpace], seed: int, trials: int | None = None,
                 history: Sequence[Past] = ()) -> None:
        times: dict[tuple[tuple[str, Any], ...], float] = {}
        for past in history:
            for configuration, seconds in zip(past.spaces[0], past.seconds.tolist(), strict=True):
                times[configuration.settings] = seconds if math.isfinite(seconds) else math.inf
        self.left = sorted(spaces[0], key=lambda one: times.get(one.settings, math.inf))
        self.told: list[tuple[Configuration, Measurement]] = []

    def ask(self, count: int) -> list[Configuration]:
        found, self.left = self.left[:count], self.left[count:]
        return found

    def tell(self, configuration: Configuration, measurement: Measurement) -> None:
        self.told.append((configuration, measurement))


def test_a_task_is_a_recorded_space_with_its_times(fast: Task) -> None:
    assert (fast.space, fast.device, fast.history) == ("toy", "fast", ())
    assert fast.seconds == pytest.approx([milliseconds(*one[:3]) * 1e-3 for one in CONFIGURATIONS])
    assert fast.optimum == pytest.approx(1e-3)
    assert [fast.number(one) for one in fast.spaces[0]] == list(range(len(CONFIGURATIONS)))


def test_only_what_was_measured_is_in_the_space_and_can_be_the_optimum(folder: Path) -> None:
    task, = tasks(read_dataset(folder), devices=["odd"])
    space, = task.spaces
    assert len(space) == len(task.seconds) == sum(order for _, _, order, _ in CONFIGURATIONS)
    assert {one["order"] for one in space} == {1}
    missing = Configuration("recorded.toy", (("block", 64), ("tile", 2), ("order", 0), ("fixed", 7)))
    assert space.why_not(missing) == "it is not among the configurations that this space was cut down to"
    assert missing not in space
    failed = [task.measurement(number).status for number in range(len(space)) if space[number]["block"] == 16]
    assert failed == [Status.RUNTIME] * 2


def test_shares_are_those_of_the_best_so_far_and_failures_count(folder: Path) -> None:
    task, = tasks(read_dataset(folder), devices=["odd"])
    (failed,) = (task.number(one) for one in task.spaces[0] if (one["block"], one["tile"]) == (16, 1))
    best = int(np.argmin(task.seconds))
    other = int(np.argmax(np.where(np.isfinite(task.seconds), task.seconds, 0)))
    share = float(task.optimum / task.seconds[other])
    assert best_shares(task, [failed, other, best], 5) == pytest.approx([0.0, share, 1.0, 1.0, 1.0])
    assert best_shares(task, [failed], 2) == pytest.approx([0.0, 0.0])
    assert best_shares(task, [], 2) == pytest.approx([0.0, 0.0])
    assert best_shares(task, [failed, other, best], 2) == pytest.approx([0.0, share])


def test_rows_and_medians_are_taken_over_the_runs() -> None:
    curves = Curves("s", "d", "m", np.array([[0.5, 0.96, 0.96], [0.2, 0.2, 1.0], [0.7, 0.7, 0.7]]))
    row = curves.row(1)
    assert (row["space"], row["device"], row["strategy"], row["budget"], row["repeats"]) == ("s", "d", "m", 1, 3)
    assert row["share_mean"] == pytest.approx(1.4 / 3)
    assert row["share_sem"] == pytest.approx(np.std([0.5, 0.2, 0.7], ddof=1) / math.sqrt(3))
    assert curves.row(0) == {**row, "budget": 0}  # the first proposal, as it is
    assert (curves.evaluations_to(0.95), curves.evaluations_to(0.99), curves.evaluations_to(0.2)) == (3, None, 1)
    assert replace(curves, shares=curves.shares[:1]).row(1)["share_sem"] is None


def test_random_search_reaches_what_it_must_on_average(fast: Task) -> None:
    """The mean of the best of n draws without replacement, in closed form."""
    found, = simulate([fast], {"random": Search(Random)}, trials=6, repeats=400)
    shares = np.sort(fast.optimum / fast.seconds)
    for budget in (1, 3, 6):
        chances = np.array([math.comb(rank, budget - 1) for rank in range(len(shares))]) / math.comb(
            len(shares), budget)
        exact = float(shares @ chances)
        row = found.row(budget)
        assert abs(row["share_mean"] - exact) < 4 * row["share_sem"]


def test_a_strategy_asks_and_is_told_and_is_stopped_by_its_budget(fast: Task) -> None:
    made: list[Greedy] = []

    def factory(*given: Any, **more: Any) -> Greedy:
        made.append(Greedy(*given, **more))
        return made[-1]

    numbers = Search(factory, batch=3)(fast, 5, 0)
    assert list(numbers) == [0, 1, 2, 3, 4]
    assert [fast.number(one) for one, _ in made[0].told] == list(numbers)
    assert [one.seconds for _, one in made[0].told] == pytest.approx(fast.seconds[:5].tolist())
    assert len(Search(factory)(fast, 1000, 0)) == len(CONFIGURATIONS)  # it has no more


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_seed_gives_the_same_curves_in_one_process_or_several(folder: Path, jobs: int) -> None:
    asked, before = tasks(read_dataset(folder)), os.environ.get("OMP_NUM_THREADS")
    methods = {"random": Search(Random), "three": Search(Random, batch=3)}
    found = simulate(asked, methods, 8, 3, seed=5, jobs=jobs)
    assert [(one.device, one.method, one.shares.shape) for one in found] == [
        (device, method, (3, 8)) for device in ("fast", "odd") for method in methods]
    again = simulate(asked, methods, 8, 3, seed=5)
    assert all(np.array_equal(one.shares, other.shares) for one, other in zip(found, again, strict=True))
    assert np.array_equal(found[0].shares, found[1].shares)  # methods get the same seeds
    assert not np.array_equal(found[0].shares, simulate(asked, methods, 8, 3, seed=6)[0].shares)
    assert os.environ.get("OMP_NUM_THREADS") == before


def test_other_devices_records_are_handed_to_who_takes_them(folder: Path) -> None:
    fast, odd = tasks(read_dataset(folder), "leave-device-out")
    (of_odd,), (of_fast,) = fast.history, odd.history
    assert [space.device.name for past in (of_odd, of_fast) for space in past.spaces] == [
        "recorded:odd", "recorded:fast"]
    assert np.isnan(of_odd.seconds).sum() == len(CONFIGURATIONS) - len(odd.seconds)  # what was not measured
    assert len(of_fast.seconds) == len(CONFIGURATIONS)
    found, = simulate([fast], {"greedy": Search(Greedy)}, 1, 1)
    assert found.shares == pytest.approx(1.0)  # both have their optimum at the same place
    assert tasks(read_dataset(folder))[0].history == ()
    assert all(task.history == () for task in tasks(read_dataset(folder), "leave-problem-out"))


def test_several_problems_of_a_kernel_are_told_apart_and_teach_each_other(folder: Path, tmp_path: Path) -> None:
    data = read_dataset(folder)
    other = data.rows["problem"].iloc[0].replace("640", "320")
    more = replace(data, rows=data.rows.assign(problem=other))
    both = more.merge(data)
    found = tasks(both, "leave-problem-out", devices=["fast"])
    assert [task.space for task in found] == [f"recorded kernel=toy size_x={size} size_y=480" for size in (320, 640)]
    assert [len(task.history) for task in found] == [1, 1]


def test_what_is_not_there_is_named(folder: Path) -> None:
    data = read_dataset(folder)
    with pytest.raises(MisuseError, match="there are toy on fast, toy on odd"):
        tasks(data, spaces=["tor"])
    with pytest.raises(MisuseError, match="there are leave-device-out"):
        tasks(data, "leave-all-out")
    assert [task.device for task in tasks(data, complete=True)] == ["fast"]
    toy, = data.kernels.values()
    huge = replace(toy, parameters=tuple(replace(one, values=tuple(range(1000))) for one in toy.parameters),
                   constraints=())
    with pytest.raises(MisuseError, match="add constraints"):
        tasks(replace(data, kernels={huge.name: huge}))


def test_replay_prints_the_rows_that_were_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(folder), "--strategies", "random,local", "--budgets", "0,2,5", "--repeats", "4",
                 "--jobs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
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


def test_medians_are_shown_without_digits_that_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    curves = [Curves("s", "d", "m", np.array([[0.1] * at + [1.0] * (9 - at)])) for at in (5, 2)]
    show.replayed(Replayed(tuple(curves), (3,)))
    assert " 6 " in (said := capsys.readouterr().out)
    assert "6.0" not in said


def test_replay_draws_the_curves(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["replay", str(folder), "--budgets", "5", "--repeats", "2", "--jobs", "1", "--json", "--curves"]
    for name in ("a.svg", "b.svg"):
        assert main([*arguments, str(tmp_path / name)]) == 0
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn == (tmp_path / "b.svg").read_text()
    assert all(text in drawn for text in ("toy, fast", "toy, odd", "evaluations", "portfolio", "random"))
    capsys.readouterr()
    assert main([*arguments, str(tmp_path / "a.svg")]) == 2
    assert "--force" in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "says"), [
    (["--strategies", "magic"], "no strategy 'magic'"), (["--strategies", ","], "name a strategy"),
    (["--budgets", "5,many"], "--budgets"), (["--budgets", ""], "name a budget"), (["--budgets", "9999999"], "budgets"),
    (["--transfer", "all"], "no transfer 'all'"), (["--spaces", "gemm"], "there are toy on fast"),
    (["--curves", "figure.txt"], "no figure"), (["--repeats", "0"], "--repeats")])
def test_a_replay_that_makes_no_sense_is_one_line(
        arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(folder), "--jobs", "1", *arguments]) == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert len(shown.err.splitlines()) == 1
    assert shown.out == ""


def test_files_that_cannot_be_replayed_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spaces.json").write_text("{")
    for path, says in ((tmp_path, "not JSON"), (tmp_path / "none.parquet", "none.parquet")):
        assert main(["replay", str(path)]) == 2
        assert says in capsys.readouterr().err


def test_a_data_set_of_our_kernels_is_replayed_within_what_was_measured(tmp_path: Path) -> None:
    space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=16, n=16, k=16), LLVM)
    with Journal(tmp_path / "source.sqlite") as journal:
        journal.add_device(LLVM)
        for row in range(0, 60, 3):
            journal.add(Record(space.problem, LLVM.key, space.kernel.version, space[row], LLVM.toolchain,
                               Measurement(Status.CORRECT, (1e-3 / (row + 1),), 1e-7), run="random"))
        data = Dataset.from_journal(journal, held_out=[space.problem.key])
        data.write(tmp_path / "data.parquet")
    found = replay(tmp_path / "data.parquet", strategies="random", budgets=[3, 20], repeats=2, held_out=True, jobs=1)
    curves, = found.curves
    assert (curves.space, curves.device) == (space.problem.key, LLVM.name)
    assert found.rows()[1]["share_mean"] == 1.0  # 20 were measured
    with pytest.raises(MisuseError, match=r"of the spaces asked for \(1\), none was measured completely"):
        tasks(data, complete=True)
    older = replace(data, rows=data.rows.assign(kernel_version=0))
    with pytest.raises(MisuseError, match="no record is of a kernel as it is today"):
        tasks(older)


def test_problems_near_the_searched_one_are_left_out_of_what_others_teach(tmp_path: Path) -> None:
    sizes = (16, 18, 64)
    with Journal(tmp_path / "source.sqlite") as journal:
        journal.add_device(LLVM)
        for m in sizes:
            space = SearchSpace(kernel("llvm.gemm"), Problem.make("gemm", m=m, n=16, k=16), LLVM)
            for row in range(5):
                journal.add(Record(space.problem, LLVM.key, space.kernel.version, space[row], LLVM.toolchain,
                                   Measurement(Status.CORRECT, (1e-3 / (row + 1),), 1e-7), run="random"))
        found = tasks(Dataset.from_journal(journal), "leave-problem-out")
    taught = {task.spaces[0].problem.size("m"): {past.spaces[0].problem.size("m") for past in task.history}
              for task in found}
    assert taught == {16: {64}, 18: {64}, 64: {16, 18}}


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"the recorded spaces are not at {SHARED}")
def test_the_recorded_spaces_have_their_published_optima() -> None:
    """Of the A6000 that of its measured half."""
    found = {(task.space, task.device): (len(task.seconds), round(task.optimum * 1e3, 4))
             for task in tasks(read_dataset(SHARED))}
    assert found["convolution_milo", "A100"] == (4362, 0.5536)
    assert found["convolution_milo", "A6000"] == (2442, 0.7747)
    assert found["dedispersion_milo", "MI250X"][0] == 11130
    assert found["gemm_rtx", "RTX_3090"][0] == 17956


def test_a_space_of_another_tool_is_sorted_and_looked_up_like_any_other() -> None:
    family = Kernel("recorded.k", "recorded", ("recorded",), (Parameter("p", (4, 2)), Parameter("q", (0, 1))), (), ())
    rows = np.array([[1, 0], [0, 1], [0, 0]], np.int16)
    space = SearchSpace.of_rows(family, Problem.make("recorded"), Device("d", "recorded", "a", "none"), rows)
    assert [one.brief() for one in space] == ["p=4 q=0", "p=4 q=1", "p=2 q=0"]
    assert [space.row(one) for one in space] == [0, 1, 2]
    assert "cut down" in str(space.why_not(Configuration.of("recorded.k", {"p": 2, "q": 1})))
    with pytest.raises(KernelError, match="no valid configuration"):
        _ = space.only(np.zeros(3, bool)).default


def test_what_no_space_is_is_said_and_long_lists_are_cut(folder: Path) -> None:
    data = read_dataset(folder)
    with pytest.raises(MisuseError, match=r"\(2\), none was measured completely and is held out from"):
        tasks(data, complete=True, held_out=True)
    device, = (one for one in data.devices.values() if one.name == "recorded:fast")
    more = {f"d{number}": replace(device, name=f"recorded:d{number}") for number in range(10)}
    keys = {one.key: one for one in more.values()}
    mine = data.rows[data.rows["device"] == device.key]
    many = replace(data, rows=pd.concat([mine.assign(device=key) for key in keys], ignore_index=True), devices=keys)
    with pytest.raises(MisuseError, match=r"nothing of that name was recorded; there are toy on d0, .* and 2 more"):
        tasks(many, spaces=["nosuch"])


@pytest.mark.parametrize("name", ["fast", "recorded:fast"])
def test_a_recorded_device_has_its_name_with_and_without_the_prefix(folder: Path, name: str) -> None:
    data = read_dataset(folder)
    assert data.device(name).name == "recorded:fast"
    assert [task.device for task in tasks(data, devices=[name])] == ["fast"]


@pytest.mark.parametrize(("restriction", "says"), [
    ("blok < 3", "blok is no parameter, in the restriction 'blok < 3'"),
    ("block > 1000", "no configuration within 'block > 1000'"),
    ("block % 0 == 1", "no configuration within 'block % 0 == 1'")])
def test_a_restriction_that_leaves_nothing_is_named(
        tmp_path: Path, restriction: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_recorded(tmp_path / "recorded", {**SPACE, "restrictions": ["tile < 9", restriction]})
    assert main(["replay", str(folder)]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1
