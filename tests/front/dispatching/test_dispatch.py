"""A dispatch on simulated and real devices: what it measures, how it is stopped and goes on, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from shutil import copytree
from typing import Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest

from seqtune.api.dispatching import choosing, known, outputs, stages
from seqtune.api.dispatching.choosing import Chooser, Question
from seqtune.api.dispatching.measuring import Measuring, journal_seconds
from seqtune.api.dispatching.outputs import check_replaceable
from seqtune.api.dispatching.results import Dispatched
from seqtune.api.dispatching.run import PREFIX, dispatch
from seqtune.api.dispatching.sizes import ObjectSizes
from seqtune.api.dispatching.stages import dispatch_measured
from seqtune.api.inputs import as_problems
from seqtune.data.journal.journal import Journal
from seqtune.errors import DeviceError, InterruptedTuning, MisuseError, SeqtuneError, UnavailableError
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.domain import Domain
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.learning import Learner
from seqtune.predictor.dispatch.matrix import Matrix, matrix_of
from seqtune.predictor.trees.cost_trees import TreesOptions
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from tests.support.devices import DEVICES
from tests.support.measuring.synthetic_measurer import Killed, SyntheticMeasurer, true_seconds
from tests.support.synthetic import DIRECT, WIDE, problems, registered

pytestmark = pytest.mark.usefixtures("fake_kernel")

SHAPES = dict.fromkeys(problems(8, seed=4), 1.0 / 8)
TOY = Kernel.of(name="toy.tiles", operation="gemm", meaning="", parameters=(Parameter("tile", (1, 2, 8)),),
                constraints=(("tile <= m and m <= 8 * tile", "a tile has an eighth of the rows"),),
                default={"tile": 1}, backends=("llvm",))


@pytest.fixture(scope="module", autouse=True)
def _few() -> Iterator[None]:
    """Few trees and drawn shapes: nothing here depends on how good a rule is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known, "TreesOptions", lambda models: TreesOptions(rounds=20, models=models, threads=1))
        patch.setattr(stages, "DRAWN", 20)
        yield


def question(folder: Path, kernels: int | None = 2, fresh: int = 0, said: list[str] | None = None,
             kind: str = "conv2d") -> Question:
    lines: list[str] = [] if said is None else said
    return Question(operation(kind), Goal(), kernels, (), fresh, 0, None, folder / "out", PREFIX, lines.append,
                    lines.append)


def run(folder: Path, measurer: SyntheticMeasurer, deadline: Deadline | None = None, **options: Any) -> Dispatched:
    with Journal(folder / "journal.sqlite") as journal:
        return dispatch_measured(question(folder, **options),
                                 Measuring(WIDE, journal, measurer, deadline or Deadline()), SHAPES)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Dispatched, list[str]]:
    """The folder, the result and the lines of a dispatch."""
    folder, said = tmp_path_factory.mktemp("first"), list[str]()
    with registered():
        return folder, run(folder, SyntheticMeasurer(), fresh=9, said=said), said


def test_members_their_rule_and_files_come_from_few_measurements(first: tuple[Path, Dispatched, list[str]]) -> None:
    folder, result, said = first
    assert [each.kernels for each in result.curve] == [1, 2]
    assert sum(len(served.problems) for served in result.served) == len(SHAPES)
    assert sum(served.weight for served in result.served) == pytest.approx(1)
    assert result.losses["rule"] <= min(result.losses["single"], result.losses["default"]) + 1e-9
    measured = result.measuring
    assert measured.complete
    assert measured.known <= max(0.2 * measured.shapes * measured.candidates, 4 * measured.shapes)
    assert [path.name for path in result.files] == [f"dispatch.{ending}" for ending in ("json", "h", "c", "hpp", "py",
                                                                                      "html")]
    assert {*result.files} == {*(folder / "out").iterdir()}
    check_replaceable(folder / "out", PREFIX)
    texts, _ = outputs.texts_of(folder, "products", Dispatcher.load(result.files[0]))
    assert [path.name for path in texts] == [f"products.{ending}" for ending in ("json", "h", "c", "hpp", "py")]
    assert '#include "products.h"' in texts[folder / "products.hpp"]
    answers = Dispatcher.load(result.files[0]).choose_many(ProblemColumns.of([*SHAPES]))
    for number, served in enumerate(result.served):
        for problem in served.problems:
            assert answers.members[[*SHAPES].index(problem)] == number
            assert served.member in SearchSpace(DIRECT, problem, WIDE), "valid wherever it is answered"
    for stage in ("shapes: ", "learning: ", "candidates: ", "measuring: ", "members: ", "bound: "):
        assert any(line.startswith(stage) for line in said), stage
    assert result.to_json()["measuring"]["complete"] is True


def test_fresh_shapes_are_judged_against_the_best_of_a_search(first: tuple[Path, Dispatched, list[str]]) -> None:
    folder, result, _ = first
    assert result.bounds is not None
    assert result.bounds.rule.shapes == 9
    assert result.bounds.raced is not None
    with Journal(folder / "journal.sqlite") as journal:
        fresh = [problem for problem in journal.problems() if problem not in SHAPES]
        assert len(fresh) == 9
        for problem in fresh:
            task = Task.of(problem, WIDE)
            assert len(journal.trials(problem, WIDE, task.kernels)) >= min(40, len(task))


def test_the_same_call_again_measures_nothing_and_drawn_shapes_teach_the_rule_and_are_never_measured_or_told(
        first: tuple[Path, Dispatched, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrices, choose = list[Matrix](), Chooser.choose

    def spied(self: Chooser, matrix: Matrix, deadline: Deadline) -> Any:
        matrices.append(matrix)
        return choose(self, matrix, deadline)

    monkeypatch.setattr(Chooser, "choose", spied)
    measurer = SyntheticMeasurer()
    again = run(copytree(first[0], tmp_path / "again"), measurer, fresh=9)
    assert (measurer.alone, measurer.together, again.measuring.measured) == ([], [], 0)
    assert again.losses == first[1].losses
    taught, drawn = matrices[0], matrices[0].weights == 0
    assert drawn.sum() == 20
    assert np.isnan(taught.seconds[taught.valid & drawn[:, None]]).all()
    assert np.isfinite(taught.expected[taught.valid]).all()
    assert {problem for served in again.served for problem in served.problems} == {*SHAPES}
    assert again.measuring.shapes == len(SHAPES)


@pytest.mark.slow
def test_what_is_stopped_and_then_killed_loses_and_repeats_nothing(tmp_path: Path) -> None:
    stopped, killed, last = (SyntheticMeasurer(40), SyntheticMeasurer(40, Killed()), SyntheticMeasurer())
    for measurer in (stopped, killed):
        with pytest.raises((InterruptedTuning, Killed)):
            run(tmp_path, measurer)
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert {(record.problem, record.configuration)
                for record in journal.records()} == {*stopped.alone, *killed.alone}
    run(tmp_path, last)
    assert last.alone
    assert not {*stopped.alone} & {*killed.alone, *last.alone}
    assert not {*killed.alone} & {*last.alone}


def test_time_that_ends_early_leaves_a_result_that_says_so(tmp_path: Path) -> None:
    ticks = iter(range(10_000))
    result = run(tmp_path, SyntheticMeasurer(), Deadline(150.0, lambda: float(next(ticks))), fresh=3)
    assert not result.measuring.complete
    assert result.bounds is None
    for part in ("the same call again goes on", "no bound: it needs at least 8 fresh shapes"):
        assert any(part in note for note in result.notes), part


def test_too_few_measurements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime, match=r"pairs of shape and candidate have a time, too few.*--minutes"):
        run(tmp_path, SyntheticMeasurer(), Deadline(0.0), kernels=1)
    assert not (tmp_path / "out").exists()


def test_times_of_sessions_are_on_one_level(tmp_path: Path) -> None:
    task = Task.of(next(iter(SHAPES)), WIDE)
    ran = [each for each in task if math.isfinite(true_seconds(task.problem, each))]
    near = sorted(ran, key=lambda each: true_seconds(task.problem, each))[:5]

    class Slower(SyntheticMeasurer):
        factor = 1.0

        def _measurement(self, problem: Problem, configuration: Any) -> Any:
            measurement = super()._measurement(problem, configuration)
            return type(measurement)(measurement.status, tuple(self.factor * each for each in measurement.samples))

    with Journal(tmp_path / "journal.sqlite") as journal:
        measurer = Slower()
        measuring = Measuring(WIDE, journal, measurer, Deadline())
        measuring.compare(task, near[:3])
        measurer.factor = 1.5  # the machine became slower
        measuring.compare(task, [near[0], *near[3:]])
        seconds = journal_seconds(journal, task)
        for configuration in near:
            expected = true_seconds(task.problem, configuration)
            assert seconds[task.number(configuration)] == pytest.approx(expected, rel=0.02)
        assert np.isnan(seconds).sum() == len(task) - 5


@pytest.mark.parametrize(("options", "message"), [
    ({"shapes": []}, "no shapes"),
    ({"shapes": ["gemm m=1 n=8 k=8"]}, "the only shape"),
    ({"shapes": {"gemm m=1 n=8 k=8": 0, "gemm m=2 n=8 k=8": 0}}, "no shapes with a weight above 0"),
    ({"shapes": {"gemm m=1 n=8 k=8": -1, "gemm m=2 n=8 k=8": 1}}, "not a number of at least 0"),
    ({"shapes": ["gemm m=1 n=8 k=8", "conv2d c=8 h=8 w=8 k=8 r=1 s=1"]}, "is no gemm"),
    ({"kernels": 65}, "from 1 to 64"),
    ({"kernels": "some"}, "from 1 to 64"),
    ({"kernels": 2, "bytes": 5000}, "kernels=2 and bytes=5000 are given; give one of them"),
    ({"bytes": 0}, "bytes=0; it must be a positive whole number"),
    ({"goal": "best"}, "is no goal"),
    ({"slowdown": 1.2}, "is for the goal within"),
    ({"goal": "within", "slowdown": 0.9}, "impossible"),
    ({"minutes": 0}, "positive"),
    ({"minutes": 0.2}, "give at least 0.5"),
    ({"fresh": -1}, "from 0 on"),
    ({"device": "llvm:none"}, "no device"),
    ({"device": "miopen:gfx906_60"}, "cannot be run here"),
    ({"domain": ["m=200..300"]}, r"0 of 2 shapes are in the domain m=200\.\.300"),
    ({"data": "missing.parquet"}, "missing.parquet"),
    ({"data": "missing.parquet", "minutes": 5, "journal": "mine.sqlite"}, "minutes and journal cannot be combined"),
    ({"checkpoint": "safe-default"}, "expects no times"),
    ({"journal": "missing/journal.sqlite"}, "does not exist"),
    ({"out": "missing/out"}, "does not exist"),
    ({"out": ""}, "out=''; it must be a path"),
    ({"prefix": "two words"}, "prefix='two words' cannot begin names of C"),
])
def test_wrong_input_gets_one_line(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    given = {"operation": "gemm", "shapes": ["gemm m=1 n=8 k=8", "gemm m=2 n=8 k=8"],
             "out": tmp_path / "out", **options}
    if "data" not in options:
        given.setdefault("journal", tmp_path / "journal.sqlite")
    with pytest.raises(MisuseError, match=message) as refused:
        dispatch(given.pop("operation"), given.pop("shapes"), **given)
    assert refused.value.exit_code == 2
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("ending", [".json", ".h", ".c", ".hpp", ".py", ".html"])
def test_files_of_somebody_else_are_not_replaced(tmp_path: Path, ending: str) -> None:
    (tmp_path / "dispatch.json").write_text('{"format":"seqtune dispatcher"}')
    text = "int mine; /* made after what seqtune dispatch made */\n"
    (own := tmp_path / f"dispatch{ending}").write_text(text)
    with pytest.raises(MisuseError, match=rf"dispatch\{ending} was not written by seqtune dispatch"):
        dispatch("gemm", ["gemm m=1 n=64 k=64"], out=tmp_path)
    assert own.read_text() == text


def test_a_device_that_vanishes_is_named_with_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(*arguments: object) -> None:
        raise UnavailableError("the driver is gone")

    monkeypatch.setattr("seqtune.tuner.measuring.runner.Runner.measure", vanish)
    with pytest.raises(DeviceError, match=r"not available any more .*the driver is gone.*journal.sqlite"):
        dispatch("gemm", ["gemm m=1 n=16 k=16", "gemm m=2 n=16 k=16"], journal=tmp_path / "journal.sqlite",
                 out=tmp_path / "out")


@pytest.mark.slow
def test_a_device_of_this_machine_gets_kernels_for_tiny_products(tmp_path: Path) -> None:
    shapes = [f"gemm m={m} n={n} k=16" for m, n in ((1, 16), (8, 32), (24, 16))]
    result = dispatch("gemm", shapes, kernels=2, fresh=1, journal=tmp_path / "journal.sqlite", out=tmp_path / "out")
    assert result.losses["rule"] <= result.losses["single"] + 1e-9
    data = dispatch("gemm", data=tmp_path / "journal.sqlite", out=tmp_path / "data", kernels=2)
    assert data.measuring.measured == 0


def _find_db(path: Path) -> Path:
    """Times of two solvers, each for channels of its own, and of a third that is known for a few problems alone."""
    lines = []
    for channels in range(8, 88, 2):
        few, many, third = (f"{time:g},0,miopenConvolutionFwdAlgoDirect"
                            for time in (channels / 40, 1 + channels / 1000, 0.3))
        solvers = [f"ConvAsm1x1U:{few}", f"ConvOclDirectFwd1x1:{many}"]
        solvers += [f"ConvDirectNaiveConvFwd:{third}"] * (channels in (20, 40))
        lines.append(f"{channels}-28-28-1x1-256-28-28-32-0x0-1x1-1x1-0-NCHW-FP32-F={';'.join(solvers)}\n")
    (path / "gfx906_60.HIP.fdb.txt").write_text("".join(lines))
    data, _ = read_files([path / "gfx906_60.HIP.fdb.txt"])
    data.write(path / "find.parquet")
    return path / "find.parquet"


@pytest.mark.parametrize("goal", ["mean", "worst", "within"])
def test_solver_times_of_a_find_db_are_used_and_nothing_learns_from_the_quarter_that_is_held_out(
        tmp_path: Path, goal: str) -> None:
    path, said = _find_db(tmp_path), list[str]()
    problems = as_problems([*pd.read_parquet(path)["problem"].unique()])
    stranger = Problem.make("convnd", **{**dict(problems[0]), "c": 1024})
    result = dispatch("convnd", [*problems, stranger], data=path, kernels=2, goal=goal, out=tmp_path / "out",
                      note=said.append)
    assert {served.member.kernel for served in result.served} == {"miopen.ConvAsm1x1U", "miopen.ConvOclDirectFwd1x1"}
    assert result.losses["rule"] < result.losses["single"]
    assert sum(len(served.problems) for served in result.served) == result.measuring.shapes == 30
    assert result.bounds is not None
    assert (result.bounds.rule.shapes, result.bounds.raced) == (10, None)
    assert {own.problem["c"] for own in result.deserving} <= {20, 40}
    for part in ("validity is not promised", "10 of 40 shapes of the data were held out"):
        assert any(part in note for note in result.notes), part
    assert said == ["1 of 41 shapes have no times in the data and are left out"]


def _planted(folder: Path, seconds: list[list[float]], kernels: int | None = None,
             weights: tuple[float, ...] = (0.5, 0.5), rows: tuple[int, ...] = (4, 6)) -> tuple[Chooser, Matrix]:
    """A chooser among TOY's tiles 1, 2 and 8 for products with these rows and times; tile 2 is the default."""
    shapes = [Problem.make("gemm", m=m, n=4, k=5) for m in rows]
    candidates = [Configuration.of(TOY.name, {"tile": tile}) for tile in (1, 2, 8)]
    tasks = [Task.of(problem, DEVICES["llvm"], [TOY]) for problem in shapes]
    measured = [MeasuredTask.of_times(task, {each: time for each, time in zip(candidates, times, strict=True)
                                             if task.find(each) is not None})
                for task, times in zip(tasks, seconds, strict=True)]
    matrix = matrix_of(measured, candidates, np.array(weights), lambda task, numbers: np.zeros(len(numbers)))
    domain = Domain.of_shapes(shapes)
    return Chooser(question(folder, kernels, kind="gemm"), DEVICES["llvm"], {TOY.name: TOY}, domain, candidates,
                   [candidates[1]] * len(shapes)), matrix


def test_files_are_written_together_and_a_language_that_cannot_write_the_rule_has_none(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def written() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}

    chooser, matrix = _planted(tmp_path, [[1.0, 2.0, 9.0], [1.0, 2.0, 9.0]])
    finish = partial(stages._finished, chooser, chooser.choose(matrix, Deadline()), [], (), 0, True)
    finish()
    before = written()
    monkeypatch.setattr(outputs, "python_file", Mock(side_effect=MisuseError("no words for it")))
    monkeypatch.setattr(outputs, "c_file", Mock(side_effect=MisuseError("no words for it")))
    with monkeypatch.context() as patch:
        patch.setattr(outputs, "write_together", Mock(side_effect=SeqtuneError("no space")))
        with pytest.raises(SeqtuneError, match="no space"):
            finish()
    assert written() == before
    page = finish().files[-1].read_text()
    assert written().keys() == {"dispatch.json", "dispatch.html"} < before.keys()
    assert "no C file is written: no words for it" in page
    assert "no Python file is written: no words for it" in page


def test_auto_ships_a_kernel_for_each_shape_that_has_one_and_none_that_serves_none(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing, "MOST_KERNELS", 1)
    chooser, matrix = _planted(tmp_path, [[1.0, 1.5, 9.0], [9.0, 9.0, 1.0]], None, (0.01, 0.99), (4, 64))
    assert chooser.choose(matrix, Deadline()).members == (2, 0)
    monkeypatch.setattr(choosing, "MOST_KERNELS", 3)
    monkeypatch.setattr(choosing, "knee", lambda sets: min(2, len(sets)))
    chooser, matrix = _planted(tmp_path, [[1.0, 2.0, 9.0], [1.0, 2.0, 9.0]])
    assert chooser.choose(matrix, Deadline()).members == (0,)
    assert len(chooser.choose(matrix, Deadline(0.0)).sets) == 1, "the time is over"


def test_a_rule_that_is_worse_than_the_best_single_kernel_is_not_shipped(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chooser, matrix = _planted(tmp_path, [[1.0, 2.0, 9.0], [1.0, 1.2, 9.0]], 2)

    def bad(values: Any, slowness: Any, *arguments: Any, **options: Any) -> Any:
        return Learner(values, -slowness, *arguments, **options)

    monkeypatch.setattr(choosing, "Learner", bad)
    assert chooser.choose(matrix, Deadline()).members == (0,)


def test_what_no_kernel_serves_is_named_and_too_few_candidates_are_refused(tmp_path: Path) -> None:
    chooser, matrix = _planted(tmp_path, [[1.0, 1.0, 9.0], [9.0, 9.0, 1.0]], 1, (0.01, 0.99), (4, 64))
    chosen = chooser.choose(matrix, Deadline())
    result = stages._finished(chooser, chosen, [], (), 0, True)
    assert ("no kernel that ships is valid for 1 of the shapes, such as gemm m=4 n=4 k=5; ask for more kernels or "
            "bytes") in result.notes
    assert any(note.startswith("no kernel is promised for shapes for which none of these holds:")
               for note in result.notes)
    assert matrix.problems[0] not in {*result.unsure, *(own.problem for own in result.deserving)}
    with pytest.raises(MisuseError, match="4 kernels are asked for, and the shapes have 3 candidates"):
        replace(chooser, question=replace(chooser.question, kernels=4))


class _Room:
    """A compiler whose objects have 100 bytes for each row of the tile, and 1000 more for the product of 64 rows."""

    def object_bytes(self, problem: Problem, kernel: Kernel, configuration: Configuration) -> int:
        return 100 * int(configuration["tile"]) + (1000 if problem["m"] == 64 else 0)


def test_as_many_kernels_ship_as_have_room_and_the_bytes_of_each_are_told(tmp_path: Path) -> None:
    chooser, matrix = _planted(tmp_path, [[1.0, 2.0, 9.0], [9.0, 2.0, 1.0]], None, (0.6, 0.4), (8, 64))
    sizes, kept = ObjectSizes(_Room(), {TOY.name: TOY}), {}
    for room in (1900, 1899, 1799):
        within = replace(chooser, question=replace(chooser.question, bytes=room), sizes=sizes)
        if room < 1800:
            with pytest.raises(MisuseError, match="the smallest set of kernels takes 1,800 bytes, more than 1,799"):
                within.choose(matrix, Deadline())
        else:
            kept[room] = within.choose(matrix, Deadline())
    assert {room: (each.members, each.bytes) for room, each in kept.items()} == {
        1900: ((2, 0), (1800, 100)), 1899: ((2,), (1800,))}
    result = stages._finished(chooser, kept[1900], [], (), 0, True)
    assert [each["bytes"] for each in result.to_json()["members"]] == [1800, 100]
    assert "<td>1800</td>" in result.files[-1].read_text()


def test_where_nothing_tells_the_bytes_of_kernels_that_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="nothing tells the bytes of kernels on miopen:gfx906_60") as refused:
        dispatch("convnd", data=_find_db(tmp_path), bytes=100_000, out=tmp_path / "out")
    assert (refused.value.exit_code, "\n" in str(refused.value)) == (2, False)
