"""A dispatch on simulated and real devices: what it measures, how it is stopped and goes on, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from seqtune.api.dispatching import known, stages
from seqtune.api.dispatching.known import Known
from seqtune.api.dispatching.measuring import CONTEST, Measuring, journal_seconds
from seqtune.api.dispatching.outputs import check_replaceable
from seqtune.api.dispatching.proof import Losses, raced
from seqtune.api.dispatching.results import Dispatched, Measured
from seqtune.api.dispatching.run import dispatch
from seqtune.api.dispatching.stages import Chooser, Question, dispatch_measured, domain_of, finish
from seqtune.api.inputs import as_problems
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Measurement, Status
from seqtune.errors import DeviceError, InterruptedTuning, MisuseError, UnavailableError
from seqtune.integrations.miopen.formats.importing import read_files
from seqtune.kernels.kernel import Configuration, Kernel, Parameter
from seqtune.kernels.operations.table import operation
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.columns import ProblemColumns
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.dispatch.dispatcher import Dispatcher
from seqtune.predictor.dispatch.goal import Goal
from seqtune.predictor.dispatch.guards import Guard
from seqtune.predictor.dispatch.matrix import Matrix, matrix_of
from seqtune.predictor.trees.cost_trees import TreesOptions
from seqtune.tuner.measuring.deadline import Deadline, OutOfTime
from tests.support.devices import DEVICES
from tests.support.fake_measurer import DEVICE, KERNEL
from tests.support.measuring.synthetic_measurer import Killed, SyntheticMeasurer, true_seconds
from tests.support.synthetic import DIRECT, WIDE, problems

pytestmark = pytest.mark.usefixtures("fake_kernel")

SHAPES = dict.fromkeys(problems(8, seed=4), 1.0 / 8)


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few shapes, trials and trees: nothing here depends on how good a rule is."""
    monkeypatch.setattr(known, "TreesOptions", lambda models: TreesOptions(rounds=20, models=models, threads=1))


def question(folder: Path, kernels: int | None = 3, fresh: int = 0, domain: Sequence[str] = (),
             said: list[str] | None = None) -> Question:
    lines: list[str] = [] if said is None else said
    return Question(operation("conv2d"), Goal(), kernels, tuple(domain), fresh, 0, None, folder / "out", lines.append,
                    lines.append)


def run(folder: Path, measurer: SyntheticMeasurer, deadline: Deadline | None = None, **options: Any) -> Dispatched:
    with Journal(folder / "journal.sqlite") as journal:
        return dispatch_measured(question(folder, **options),
                                 Measuring(WIDE, journal, measurer, deadline or Deadline()), SHAPES)


def test_members_their_rule_and_files_come_from_few_measurements(tmp_path: Path) -> None:
    measurer = SyntheticMeasurer()
    said: list[str] = []
    result = run(tmp_path, measurer, said=said)
    assert result.kernels == 3
    assert [point.kernels for point in result.curve] == [1, 2, 3]
    assert sum(len(served.problems) for served in result.served) == len(SHAPES)
    assert sum(served.weight for served in result.served) == pytest.approx(1)
    assert result.losses["rule"] <= min(result.losses["single"], result.losses["default"]) + 1e-9
    measured = result.measuring
    assert measured.shapes == len(SHAPES)
    assert measured.known <= max(0.2 * measured.shapes * measured.candidates, 4 * measured.shapes)
    assert measured.complete
    assert [path.name for path in result.files] == [f"dispatch.{ending}" for ending in ("json", "h", "c", "py", "html")]
    assert all(path.stat().st_size for path in result.files)
    loaded = Dispatcher.load(result.files[0])
    answers = loaded.choose_many(ProblemColumns.of([*SHAPES]))
    for number, served in enumerate(result.served):
        for problem in served.problems:
            assert answers.members[[*SHAPES].index(problem)] == number
            assert served.member in SearchSpace(DIRECT, problem, WIDE), "valid wherever it is answered"
    assert any(line.startswith("candidates: ") for line in said)
    assert any(line.startswith("measuring: ") for line in said)
    assert any(line.startswith("members: ") for line in said)
    assert result.to_json()["measuring"]["complete"] is True


@pytest.mark.slow
def test_the_same_call_again_measures_nothing(tmp_path: Path) -> None:
    run(tmp_path, SyntheticMeasurer(), fresh=2)
    again = SyntheticMeasurer()
    result = run(tmp_path, again, fresh=2)
    assert (again.alone, again.together, result.measuring.measured) == ([], [], 0)


@pytest.mark.slow
@pytest.mark.parametrize("end", [KeyboardInterrupt(), Killed()])
def test_what_is_stopped_or_killed_loses_and_repeats_nothing(tmp_path: Path, end: BaseException) -> None:
    first, second = SyntheticMeasurer(88, end), SyntheticMeasurer()
    with pytest.raises((KeyboardInterrupt, InterruptedTuning, Killed)):
        run(tmp_path, first)
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert {(record.problem, record.configuration) for record in journal.records()} == {*first.alone}
    run(tmp_path, second)
    assert second.alone
    assert not {*first.alone} & {*second.alone}


def test_time_that_ends_early_leaves_a_result_that_says_so(tmp_path: Path) -> None:
    ticks = iter(range(10_000))
    result = run(tmp_path, SyntheticMeasurer(), Deadline(150.0, lambda: float(next(ticks))), fresh=3)
    assert not result.measuring.complete
    assert any("the same call again goes on" in note for note in result.notes)
    assert result.bounds is None
    assert any("fresh shapes" in note for note in result.notes)


def test_too_few_measurements_are_refused_and_stay_in_the_journal(tmp_path: Path) -> None:
    class Slow(SyntheticMeasurer):
        """Measures four configurations, which takes all of the time."""

        def measure(self, *arguments: Any, **options: Any) -> Any:
            if len(self.alone) < 4:
                yield next(super().measure(*arguments, **options))

    measurer = Slow()
    over_after_four = Deadline(1.0, lambda: 2.0 if len(measurer.alone) >= 4 else 0.0)
    with pytest.raises(OutOfTime, match=r"pairs of shape and candidate have a time, too few.*--minutes"):
        run(tmp_path, measurer, over_after_four)
    assert not (tmp_path / "out").exists()
    with Journal(tmp_path / "journal.sqlite") as journal:
        assert list(journal.records())


def test_a_race_is_decided_by_one_sample_and_not_by_the_typical_time(tmp_path: Path) -> None:
    task = Task.of(next(iter(SHAPES)), WIDE)
    steady, lucky, alone = (task[number] for number in range(3))
    with Journal(tmp_path / "journal.sqlite") as journal:
        measuring = Measuring(WIDE, journal, SyntheticMeasurer(), Deadline())
        for configuration, samples in ((steady, (2.0, 2.0, 2.0)), (lucky, (1.0, 3.0, 3.0))):
            measuring.store(task, configuration, Measurement(Status.CORRECT, samples), CONTEST, "session")
        assert raced(measuring, task, [steady, lucky]) == lucky
        assert raced(measuring, task, [alone, steady]) == steady
        assert raced(measuring, task, []) is None


def test_a_configuration_that_is_valid_everywhere_is_found_and_ends_the_file(tmp_path: Path) -> None:
    result = run(tmp_path, SyntheticMeasurer())
    assert result.dispatcher is not None
    assert result.dispatcher.fallback is not None
    assert not result.dispatcher.gap
    tasks = [MeasuredTask.of_times(Task.of(problem, WIDE), {}) for problem in SHAPES]
    domain = domain_of(question(tmp_path), [*SHAPES])
    universal = Known(WIDE, tasks, np.full(len(tasks), 1 / len(tasks))).universal(domain, 0)
    assert 0 < len(universal) <= 5
    assert all(Guard.of(each, DIRECT, WIDE).is_proved(domain) for each in universal)


@pytest.mark.slow
def test_fresh_shapes_are_judged_against_the_best_of_a_search(tmp_path: Path) -> None:
    result = run(tmp_path, SyntheticMeasurer(), fresh=9)
    assert result.bounds is not None
    assert result.bounds.rule.shapes == 9
    assert result.bounds.raced is not None
    with Journal(tmp_path / "journal.sqlite") as journal:
        fresh = [problem for problem in journal.problems() if problem not in SHAPES]
        assert len(fresh) == 9
        for problem in fresh:
            task = Task.of(problem, WIDE)
            assert len(journal.trials(problem, WIDE, task.kernels)) >= min(40, len(task))


def test_the_two_builds_of_a_comparison_have_workers_of_their_own(tmp_path: Path) -> None:
    task, renewed = Task.of(next(iter(SHAPES)), WIDE), list[int]()
    with Journal(tmp_path / "journal.sqlite") as journal:
        measurer = SyntheticMeasurer()
        Measuring(WIDE, journal, measurer, Deadline(), lambda: renewed.append(len(measurer.together))).compare(
            task, [task[number] for number in range(3)])
        assert (renewed, len(measurer.together)) == ([1], 2)


def test_a_language_that_cannot_write_the_rule_loses_its_old_files_and_the_page_says_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> str:
        raise MisuseError("no words for it")

    run(tmp_path, SyntheticMeasurer())
    monkeypatch.setattr(stages, "python_file", refuse)
    monkeypatch.setattr(stages, "c_file", refuse)
    result = run(tmp_path, SyntheticMeasurer())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"dispatch.json", "dispatch.html"}
    assert {*result.files} == {*(tmp_path / "out").iterdir()}
    assert "no C file is written: no words for it" in result.files[-1].read_text()
    assert "no Python file is written: no words for it" in result.files[-1].read_text()


def test_times_of_sessions_are_on_one_level(tmp_path: Path) -> None:
    problem = next(iter(SHAPES))
    task = Task.of(problem, WIDE)
    ran = [each for each in task if math.isfinite(true_seconds(problem, each))]
    near = sorted(ran, key=lambda each: true_seconds(problem, each))[:5]

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
            assert seconds[task.number(configuration)] == pytest.approx(true_seconds(problem, configuration), rel=0.02)
        assert measuring.are_compared(task, near[:3])
        assert not measuring.are_compared(task, near[1:4])
        assert np.isnan(seconds).sum() == len(task) - 5


def test_shapes_outside_of_the_domain_are_left_out_and_some_must_be_inside(tmp_path: Path) -> None:
    lines: list[str] = []
    shapes = [Problem.make("gemm", m=m, n=4, k=5) for m in (3, 6, 9)]
    asked = replace(question(tmp_path), operation=operation("gemm"), note=lines.append)
    domain_of(replace(asked, domain=("m=1..7",)), shapes)
    assert lines == ["1 of 3 shapes are outside of the domain and are left out"]
    with pytest.raises(MisuseError, match=r"0 of 3 shapes are in the domain m=200\.\.300"):
        domain_of(replace(asked, domain=("m=200..300",)), shapes)
    with pytest.raises(MisuseError, match="shapes are in the domain"):
        run(tmp_path, SyntheticMeasurer(), domain=["c > 100000"])


def test_more_kernels_than_candidates_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match="5000 kernels are asked for, and the shapes have"):
        run(tmp_path, SyntheticMeasurer(), kernels=5000)


@pytest.mark.parametrize(("options", "message"), [
    ({"shapes": []}, "no shapes"),
    ({"shapes": ["gemm m=1 n=8 k=8"]}, "the only shape"),
    ({"shapes": {"gemm m=1 n=8 k=8": 0, "gemm m=2 n=8 k=8": 0}}, "weight 0"),
    ({"shapes": {"gemm m=1 n=8 k=8": -1, "gemm m=2 n=8 k=8": 1}}, "not a number of at least 0"),
    ({"shapes": ["gemm m=1 n=8 k=8", "conv2d c=8 h=8 w=8 k=8 r=1 s=1"]}, "is no gemm"),
    ({"kernels": 0}, "from 1 to 64"),
    ({"kernels": 65}, "from 1 to 64"),
    ({"kernels": "some"}, "from 1 to 64"),
    ({"goal": "best"}, "is no goal"),
    ({"slowdown": 1.2}, "is for the goal within"),
    ({"goal": "within", "slowdown": 0.9}, "impossible"),
    ({"minutes": 0}, "positive"),
    ({"minutes": 0.2}, "give at least 0.5"),
    ({"fresh": -1}, "from 0 on"),
    ({"seed": -1}, "from 0 on"),
    ({"device": "llvm:none"}, "no device"),
    ({"device": "miopen:gfx906_60"}, "cannot be run here"),
    ({"operation": "nothing"}, "nothing"),
    ({"data": "missing.parquet"}, "missing.parquet"),
    ({"data": "missing.parquet", "minutes": 5, "journal": "mine.sqlite"}, "minutes and journal cannot be combined"),
    ({"data": "missing.parquet", "checkpoint": "analytic"}, "checkpoint cannot be combined"),
    ({"checkpoint": "safe-default"}, "expects no times"),
    ({"journal": "missing/journal.sqlite"}, "does not exist"),
    ({"out": "missing/out"}, "does not exist"),
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


class _Vanishing:
    """A runner whose device goes away after a look."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def __enter__(self) -> _Vanishing:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass

    def measure(self, *arguments: object) -> Iterator[Any]:
        raise UnavailableError("the driver is gone")
        yield


def test_a_device_that_vanishes_is_named_with_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.tuner.measuring.runner.Runner", _Vanishing)
    with pytest.raises(DeviceError, match=r"not available any more .*the driver is gone.*journal.sqlite"):
        dispatch("gemm", ["gemm m=1 n=16 k=16", "gemm m=2 n=16 k=16"], journal=tmp_path / "journal.sqlite",
                 out=tmp_path / "out")


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
def test_solver_times_of_a_find_db_are_used_without_a_device(tmp_path: Path, goal: str) -> None:
    result = dispatch("convnd", data=_find_db(tmp_path), kernels=2, goal=goal, out=tmp_path / "out")
    assert {served.member.kernel for served in result.served} == {"miopen.ConvAsm1x1U", "miopen.ConvOclDirectFwd1x1"}
    assert result.measuring.measured == 0
    assert result.losses["rule"] < result.losses["single"]
    assert result.bounds is not None
    assert result.bounds.rule.shapes == 10, "a quarter is held out"
    assert {own.problem["c"] for own in result.deserving} <= {20, 40}
    assert any("validity is not promised" in note for note in result.notes)


def test_the_single_kernel_that_replaces_a_rule_is_one_that_is_valid_everywhere(tmp_path: Path) -> None:
    candidates = [Configuration.of(KERNEL.name, {"x": x, "y": 0}) for x in range(3)]
    problems = [Problem.make("gemm", m=m, n=4, k=5) for m in (3, 6)]
    seconds = np.array([[3.0, 1.0, 2.0], [3.0, 1.0, 2.0]])
    matrix = Matrix(tuple(problems), tuple(candidates), seconds, np.zeros((2, 3)), np.array([0.5, 0.5]))
    asked = replace(question(tmp_path, kernels=None), operation=operation("gemm"))
    chooser = Chooser(asked, DEVICE, {KERNEL.name: KERNEL}, domain_of(asked, problems), np.array([True, False, True]),
                      np.array([1, 1]))
    assert chooser.best_single(matrix) == 2
    chosen = chooser.choose(matrix, Deadline())
    assert len(chosen.members) == 2, "with one kernel, the library's default would be better"
    assert not chooser.is_below_default(chosen)
    assert len(chooser.choose(matrix, Deadline(0.0)).steps) == 1, "the time is over"


def test_nothing_learns_from_held_out_shapes_and_they_are_drawn_evenly(tmp_path: Path) -> None:
    path = _find_db(tmp_path)
    rows = pd.read_parquet(path)
    problems = as_problems([*rows["problem"].unique()])
    weights = {problem: 1000.0 if index < 8 else 1.0 for index, problem in enumerate(problems)}
    result = dispatch("convnd", weights, data=path, kernels=2, out=tmp_path / "out")
    given = {problem for served in result.served for problem in served.problems}
    assert len(given) == result.measuring.shapes == 30
    assert len(given & {*problems[:8]}) >= 4, "the heaviest shapes stay with those that teach"
    assert result.bounds is not None
    assert result.bounds.raced is None, "existing data have one time of each, so no race"
    assert any("10 of 40 shapes of the data were held out" in note for note in result.notes)
    said: list[str] = []
    stranger = Problem.make("convnd", **{**dict(problems[0]), "c": 1024})
    other = dispatch("convnd", {**weights, stranger: 1.0}, data=path, kernels=2, fresh=0, out=tmp_path / "out",
                     note=said.append)
    assert other.measuring.shapes == 40
    assert other.bounds is None
    assert said == ["1 of 41 shapes have no times in the data and are left out"]


@pytest.mark.slow
def test_a_device_of_this_machine_gets_kernels_for_tiny_products(tmp_path: Path) -> None:
    shapes = [f"gemm m={m} n={n} k=16" for m in (1, 8, 24) for n in (16, 32)]
    result = dispatch("gemm", shapes, kernels=2, fresh=1, journal=tmp_path / "journal.sqlite", out=tmp_path / "out")
    assert result.kernels == 2
    assert result.losses["rule"] <= result.losses["single"] + 1e-9
    data = dispatch("gemm", data=tmp_path / "journal.sqlite", out=tmp_path / "data", kernels=2)
    assert data.measuring.measured == 0
    assert data.kernels <= 2


@pytest.mark.parametrize("ending", [".json", ".h", ".c", ".py", ".html"])
def test_files_of_somebody_else_are_not_replaced(tmp_path: Path, ending: str) -> None:
    (own := tmp_path / f"dispatch{ending}").write_text("int mine;\n")
    with pytest.raises(MisuseError, match=rf"dispatch\{ending} was not written by seqtune dispatch"):
        dispatch("gemm", ["gemm m=1 n=64 k=64"], out=tmp_path)
    assert own.read_text() == "int mine;\n"


def test_files_of_an_earlier_dispatch_are_replaced(tmp_path: Path) -> None:
    run(tmp_path, SyntheticMeasurer())
    assert len([*(tmp_path / "out").iterdir()]) == 5
    check_replaceable(tmp_path / "out")


@pytest.mark.parametrize(("out", "said"), [("", "out=''; it must be a path"), ("file", "file is not a folder"),
                                           ("file/out", "file is not a folder, so ")])
def test_a_folder_that_cannot_be_made_is_refused_at_once(tmp_path: Path, out: str, said: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MisuseError, match=said):
        dispatch("gemm", ["gemm m=1 n=64 k=64"], out=tmp_path / out if out else out)


def test_a_shape_without_a_valid_kernel_is_named_and_deserves_no_race(tmp_path: Path) -> None:
    kernel = Kernel.of(name="toy.tiles", operation="gemm", meaning="", parameters=(Parameter("tile", (1, 8)),),
                       constraints=(("tile <= m", "a tile has m rows"),), default={"tile": 1}, backends=("llvm",))
    candidates = tuple(Configuration.of(kernel.name, {"tile": tile}) for tile in (1, 8))
    problems = tuple(Problem.make("gemm", m=m, n=4, k=5) for m in (4, 8, 64))
    seconds = np.array([[3.0, np.inf], [3.0, 1.0], [3.0, 1.0]])
    matrix = Matrix(problems, candidates, seconds, np.zeros((3, 2)), np.full(3, 1 / 3))
    asked = replace(question(tmp_path, kernels=1), operation=operation("gemm"))
    chooser = Chooser(asked, DEVICES["llvm"], {kernel.name: kernel}, domain_of(asked, problems), np.zeros(2, bool),
                      np.full(3, -1))
    chosen = chooser.ruled(matrix, chooser.choose(matrix, Deadline()).steps, (1,))
    result = finish(chooser, chosen, Losses(), Measured(3, 2, 5, 5, True), [])
    assert "no kernel that ships is valid for gemm m=4 n=4 k=5; ask for more kernels" in result.notes
    assert any(note.startswith("no kernel is promised for shapes for which none of these holds:")
               for note in result.notes)
    assert problems[0] not in {*result.unsure, *(own.problem for own in result.deserving)}


def test_auto_ships_a_kernel_for_each_shape_that_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MOST_KERNELS", 1)
    kernel = Kernel.of(name="toy.tiles", operation="gemm", meaning="", parameters=(Parameter("tile", (1, 8)),),
                       constraints=(("tile <= m and m <= 8 * tile", "a tile has an eighth of the rows"),),
                       default={"tile": 1}, backends=("llvm",))
    problems = tuple(Problem.make("gemm", m=m, n=4, k=5) for m in (4, 64))
    tasks = [MeasuredTask.of_times(Task.of(problem, DEVICES["llvm"], [kernel]), {}) for problem in problems]
    candidates = [Configuration.of(kernel.name, {"tile": tile}) for tile in (1, 8)]
    matrix = matrix_of(tasks, candidates, np.array([0.01, 0.99]), lambda task, numbers: np.zeros(len(numbers)))
    asked = replace(question(tmp_path, kernels=None), operation=operation("gemm"))
    chooser = Chooser(asked, DEVICES["llvm"], {kernel.name: kernel}, domain_of(asked, problems), np.zeros(2, bool),
                      np.full(2, -1))
    assert chooser.choose(matrix, Deadline()).members == (1, 0)


def test_auto_ships_no_kernel_that_serves_no_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "knee", lambda steps: 2)
    candidates = tuple(Configuration.of(KERNEL.name, {"x": x, "y": 0}) for x in range(3))
    problems = tuple(Problem.make("gemm", m=m, n=4, k=5) for m in (3, 6))
    matrix = Matrix(problems, candidates, np.array([[3.0, 1.0, 2.0]] * 2), np.zeros((2, 3)), np.array([0.5, 0.5]))
    for kernels, shipped in ((None, 1), (2, 2)):
        asked = replace(question(tmp_path, kernels=kernels), operation=operation("gemm"))
        chooser = Chooser(asked, DEVICE, {KERNEL.name: KERNEL}, domain_of(asked, problems), np.ones(3, bool),
                          np.full(2, -1))
        assert len(chooser.choose(matrix, Deadline()).members) == shipped
