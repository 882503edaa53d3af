"""Figures: what is drawn of results, with its labels and numbers; without Matplotlib a line names the extra."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqtune import figures
from seqtune.api.results import Answer, Prediction
from seqtune.errors import MissingPackageError, MisuseError
from seqtune.figures.picture import save
from seqtune.kernels.kernel import Configuration
from seqtune.kernels.space import SearchSpace
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.confidence.explanation import ExpertOpinion, Explanation
from seqtune.predictor.learning.tasks.shares import EvaluationRow
from seqtune.tuner.run.simulation import Curves
from tests.support.installation.optional import skip_without
from tests.support.interpreter import loaded_after
from tests.support.report_content import DEVICE, PROBLEM, configurations, gemm

SPACE = SearchSpace(gemm(), PROBLEM, DEVICE)
FIRST, SECOND = "vectors_n", "tile_m"


@pytest.fixture(autouse=True)
def _drawable() -> None:
    skip_without("matplotlib")


def axes(figure: Any) -> list[Any]:
    """The axes of a figure, whose many types are not told apart here."""
    return list(figure.axes)


def texts(axis: Any) -> list[str]:
    """The texts inside of axes."""
    return [text.get_text() for text in axis.texts]


def labels(axis: Any) -> tuple[list[str], list[str]]:
    """The labels of the ticks, across and down."""
    return ([text.get_text() for text in axis.get_xticklabels()], [text.get_text() for text in axis.get_yticklabels()])


def measured(seconds: Callable[[Configuration], float]) -> MeasuredTask:
    """A task of which every configuration has a time; those of 0 seconds were not measured."""
    times = np.array([seconds(configuration) for configuration in SPACE])
    return MeasuredTask(Task(PROBLEM, DEVICE, (SPACE,)), np.where(times == 0, np.nan, times))


def test_a_landscape_shows_the_least_time_of_each_pair_of_values() -> None:
    task = measured(lambda each: 1e-3 * int(each[FIRST]) + 1e-5 * int(each[SECOND]) + 1e-7 * int(each["unroll_k"]))
    axis, bar = axes(figures.landscape(task, parameters=(FIRST, SECOND)))
    assert (axis.get_xlabel(), axis.get_ylabel(), bar.get_ylabel()) == (FIRST, SECOND, "least time")
    assert axis.get_title("left") == f"llvm.gemm: {PROBLEM.brief()}\n{DEVICE.name}"
    across, down = labels(axis)
    shown = axis.images[0].get_array()
    least: dict[tuple[str, str], float] = {}
    for each, seconds in zip(task.task, task.seconds.tolist(), strict=True):
        pair = str(each[FIRST]), str(each[SECOND])
        least[pair] = min(least.get(pair, math.inf), seconds)
    for (row, column), is_empty in np.ndenumerate(np.ma.getmaskarray(shown)):
        assert is_empty == ((across[column], down[row]) not in least)
        assert is_empty or shown[row, column] == pytest.approx(least[across[column], down[row]])
    frame, = axis.patches
    fastest = task.task[int(task.seconds.argmin())]
    assert (across[round(frame.get_x() + 0.5)], down[round(frame.get_y() + 0.5)]) == (
        str(fastest[FIRST]), str(fastest[SECOND]))


def test_the_convergence_of_searches_is_a_mean_with_its_interval() -> None:
    runs = np.array([[0.5, 0.5, 0.9, 0.9], [0.7, 0.9, 0.9, 0.95], [0.6, 0.6, 0.6, 0.99]])
    curves = [Curves("toy", "fast", "random", runs), Curves("toy", "odd", "random", runs[:1])]
    first, second = (axis for axis in axes(figures.convergence(curves)) if axis.get_title("left"))
    assert (first.get_title("left"), second.get_title("left")) == ("toy\nfast", "toy\nodd")
    assert second.get_xlabel() == "evaluations"
    line = next(line for line in first.lines if line.get_label() == "random")
    assert line.get_ydata() == pytest.approx(runs.mean(axis=0))
    band, = first.collections
    heights = band.get_paths()[0].vertices[:, 1]
    low, high = curves[0].interval([1, 2, 3, 4])
    assert (heights.min(), heights.max()) == pytest.approx((low.min(), high.max()))
    assert (low <= runs.mean(axis=0)).all()
    assert (high >= runs.mean(axis=0)).all()
    assert not second.collections  # one run has no interval
    assert texts(first) == ["random"]
    for count, says in ((0, "no curves"), (61, "61 panels")):
        with pytest.raises(MisuseError, match=says):
            figures.convergence([replace(curves[0], device=str(number)) for number in range(count)])


def row(device: str, method: str, count: int, share: float) -> EvaluationRow:
    """A row of an evaluation."""
    return EvaluationRow(device, method, count, share, share - 0.05, share + 0.05, None, 7)


def test_shares_are_drawn_by_device_with_the_intervals_of_ours() -> None:
    rows = [row(device, method, count, base + count / 100) for device in ("llvm:a", "llvm:b")
            for method, base in (("seqtune", 0.9), ("mine", 0.6)) for count in (0, 3, 5)]
    panels = [axis for axis in axes(figures.shares(rows)) if axis.get_title("left")]
    assert [axis.get_title("left") for axis in panels] == ["llvm:a\n7 problems", "llvm:b\n7 problems"]
    for axis in panels:
        drawn = {line.get_label(): line for line in axis.lines}
        assert list(drawn["seqtune"].get_xdata()) == [0, 3, 5]
        assert drawn["seqtune"].get_ydata() == pytest.approx([0.9, 0.93, 0.95])
        assert drawn["mine"].get_ydata() == pytest.approx([0.6, 0.63, 0.65])
        bars, = axis.collections
        assert bars.get_segments()[0][:, 1] == pytest.approx([0.85, 0.95])
        assert texts(axis) == ["seqtune", "mine"]
        assert axis.get_xlabel() == "measured proposals"
    for wrong, says in (([], "0 devices"), ([SimpleNamespace()], "not those of an evaluation on measured times")):
        with pytest.raises(MisuseError, match=says):
            figures.shares(wrong)


def test_the_experts_of_a_prediction_are_drawn_beside_their_mean() -> None:
    proposals = [Answer(each, 0.5) for each in configurations(2)]
    prediction = Prediction(PROBLEM, DEVICE, tuple(proposals), proposals[0], proposals[0], predictor="default")
    opinions = (ExpertOpinion("trees", (0.9, 0.8)), ExpertOpinion("judge", (0.4, 0.2)))
    axis, = axes(figures.experts(replace(prediction, explanation=Explanation((), (), (), opinions))))
    across, down = labels(axis)
    assert across == ["trees", "judge", "mean"]
    assert [label.split()[:2] for label in down] == [["1", "llvm.gemm"], ["2", "llvm.gemm"]]
    assert all(label.endswith("(0.50)") for label in down)
    mean = [0.6, 0.4]  # the square roots of 0.36 and 0.16
    assert np.allclose(axis.images[0].get_array(), [[0.9, 0.4, mean[0]], [0.8, 0.2, mean[1]]])
    assert texts(axis)[:2] == ["0.90", "0.80"]
    for explanation, says in ((None, "explain=True"), (Explanation((), (), ()), "default has no experts")):
        with pytest.raises(MisuseError, match=says):
            figures.experts(replace(prediction, explanation=explanation))


def step(number: int, kernel: str, seconds: float) -> SimpleNamespace:
    """A step as `seqtune.pytorch.explain` describes it, without what is not drawn."""
    return SimpleNamespace(number=number, operation=f"operation {number}", kernel=kernel, seconds=seconds)


def test_the_steps_of_a_network_are_bars_in_order_and_short_ones_are_added_up() -> None:
    network: Any = SimpleNamespace(total="4 steps, 0.016 ms on llvm:avx2:2", steps=(
        step(0, "llvm.direct", 4e-6), step(1, "step", 1e-6), step(2, "llvm.gemm", 9e-6), step(3, "step", 2e-6)))
    axis, = axes(figures.steps(network, most=2))
    assert labels(axis)[1] == ["0  operation 0", "2  operation 2", "others"]
    assert [bar.get_width() for bar in axis.patches] == pytest.approx([4, 9, 3])  # microseconds
    assert axis.get_title("left") == "4 steps, 0.016 ms on llvm:avx2:2"
    assert axis.get_xlabel() == "µs"
    legend = [text.get_text() for text in figures.steps(network).legends[0].get_texts()]
    assert legend == ["llvm.direct", "llvm.gemm", "generated code"]
    network.steps = ()
    for most, says in ((40, "no steps"), (0, "1..200")):
        with pytest.raises(MisuseError, match=says):
            figures.steps(network, most=most)


def test_a_figure_changes_no_setting_of_matplotlib_and_shows_itself_in_a_notebook(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    figure: Any = figures.convergence([Curves("toy", "fast", "random", np.array([[0.5, 0.9]]))])
    assert figure._repr_png_().startswith(b"\x89PNG")
    for name in ("a.svg", "b.svg"):
        save(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert dict(matplotlib.rcParams) == before
    assert loaded_after("import seqtune.figures; dir(seqtune.figures)") == set()


def test_without_matplotlib_each_function_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqtune.errors.is_installed", lambda package: package != "matplotlib")
    for name in figures.__all__:
        draw: Callable[[Any], object] = getattr(figures, name)
        with pytest.raises(MissingPackageError, match=r"^Matplotlib is not installed: pip install 'seqtune\[plot\]'$"):
            draw(None)
