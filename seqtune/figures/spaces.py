"""Spaces: the times of one problem's configurations over two parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqtune.kernels.kernel import Setting, shown_setting
from seqtune.kernels.task import Floats, MeasuredTask

from ..api.inputs import as_problem
from ..api.results import duration
from ..errors import KernelError, MisuseError, ProblemError
from .picture import GREY, VERMILION, panel, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_VALUES = 64  # of a parameter; more rows or columns cannot be told apart
_MOST_TEXTS = 200  # cells in which the time is written
_MARKS = 5  # times beside the colours
_LISTED = 5  # names in a message
_NO_CELL = "#f2f2f2"
_DARKEST = 4  # times the least time; what is slower has the same colour, so that one outlier does not hide the rest


@dataclass(frozen=True, eq=False)
class _Times:
    """The times of the configurations of one kernel family."""

    kernel: str
    parameters: tuple[tuple[str, tuple[Setting | None, ...]], ...]  # names and values; None: a row lacks the parameter
    indices: NDArray[np.int64]  # (configuration, parameter) of the values
    seconds: Floats  # (configuration,) infinite if it failed

    @property
    def best(self) -> float:
        """The shortest time, in seconds; infinite if all failed."""
        return float(self.seconds.min(initial=np.inf))

    def column(self, name: str) -> int:
        """The index of a parameter. Raises MisuseError."""
        names = [parameter for parameter, _ in self.parameters]
        if name not in names:
            raise MisuseError(f"{self.kernel} has no parameter {name!r:.40}; it has {', '.join(names)}")
        return names.index(name)


@style()
def landscape(data: MeasuredTask | str | Path, problem: object = None, *, device: str | None = None,
              kernel: str | None = None, parameters: Sequence[str] = ()) -> Figure:
    """Draw the times of a problem's measured configurations over two parameters of a kernel family.

    A cell is the least time of all configurations with these two values, whatever their other values are; grey cells
    failed, empty ones were not measured. A frame marks the fastest configuration. `data` is a journal, a data set
    (`shipped`: the shipped ones) or a measured task; a file needs `problem` where it has several, and `device` (a name,
    key or alias) where they were measured on several. `kernel` is the family (None: that of the fastest configuration),
    `parameters` the two names, across and down (none: those that explain most of the variance of log time). Raises
    MisuseError, ProblemError, DeviceError or KernelError if there is no such thing or no time to draw, FormatError for
    a damaged file, MissingPackageError without Matplotlib.
    """
    solved, machine, families = _of_task(data) if isinstance(data, MeasuredTask) else _of_file(data, problem, device)
    times = _family(families, kernel, f"{solved} on {machine}")
    across, down = _two_parameters(times, parameters)
    figure, axis = _drawn(times, across, down)
    axis.set_title(f"{times.kernel}: {solved}\n{machine}", loc="left")
    return figure


def _of_task(measured: MeasuredTask) -> tuple[str, str, list[_Times]]:
    """The problem and the device in words, and the times by family."""
    families = []
    for space, part in measured.task.parts():
        seconds = measured.seconds[part]
        known = np.flatnonzero(~np.isnan(seconds))
        families.append(_Times(space.kernel.name, tuple((each.name, each.values) for each in space.kernel.parameters),
                               space.rows[known].astype(np.int64), seconds[known]))
    return measured.problem.brief(), measured.device.name, families


def _of_file(source: str | Path, problem: object, device: str | None) -> tuple[str, str, list[_Times]]:
    """The same for a problem and a device of a journal or a data set."""
    from ..reporting.cases import cases_of
    from ..reporting.measurements import read

    measurements = read(source)
    if device is not None:
        measurements = measurements.on(device)
    wanted = None if problem is None else as_problem(problem)
    keys = [*measurements.problems] if wanted is None else [wanted.key]
    if len(keys) != 1:
        raise ProblemError(f"{source} has {len(keys)} problems; name one of them: "
                           f"{_some(each.brief() for each in measurements.problems.values())}")
    cases = cases_of(measurements.of(keys[0]))
    machines = [measurements.machines[number].key for number in cases.machine.tolist()]
    if len(machines) > 1:
        raise MisuseError(f"this problem was measured on {len(machines)} devices; name one of them: {_some(machines)}")
    if not machines:
        assert wanted is not None
        raise ProblemError(f"{source} has no measurement of {wanted.brief()}"
                           f"{'' if device is None else f' on {device}'}")
    families = []
    for number, table in enumerate(cases.tables):
        ran = cases.times[cases.times["kernel"] == number]
        seconds = np.full(len(table.indices), np.inf)
        seconds[ran["configuration"].to_numpy()] = ran["seconds"].to_numpy()
        families.append(_Times(table.name, table.parameters, table.indices, seconds))
    return measurements.problems[keys[0]].brief(), machines[0], families


def _some(names: Any) -> str:
    listed = list(islice(names, _LISTED + 1))
    return ", ".join(listed[:_LISTED]) + (", ..." if len(listed) > _LISTED else "")


def _family(families: Sequence[_Times], name: str | None, where: str) -> _Times:
    """The family of a name, or (None) that of the fastest configuration. Raises KernelError, MisuseError."""
    chosen = min(families, key=lambda family: family.best) if name is None else next(
        (family for family in families if family.kernel == name), None)
    if chosen is None:
        raise KernelError(f"there is no time of {name!r:.60} for {where}; there are times of "
                          f"{', '.join(family.kernel for family in families)}")
    if not np.isfinite(chosen.best):
        raise MisuseError(f"no configuration of {chosen.kernel} ran for {where}")
    return chosen


def _two_parameters(times: _Times, names: Sequence[str]) -> tuple[int, int]:
    """The columns of the two parameters that are drawn across and down. Raises MisuseError."""
    from ..reporting.importance import explained

    if names:
        if isinstance(names, str) or len(names) != 2 or names[0] == names[1]:
            raise MisuseError(f"parameters={names!r:.80}; it must be the names of two parameters")
        return times.column(names[0]), times.column(names[1])
    ran = np.isfinite(times.seconds)
    logs, case = np.log(times.seconds[ran]), np.zeros(int(ran.sum()), np.int64)
    shares = {}
    for column in range(len(times.parameters)):
        values = times.indices[ran, column]
        if 1 < len(np.unique(values)) <= MOST_VALUES:
            effect = explained(case, logs, values)
            shares[column] = 0.0 if effect is None else effect[0] - effect[1]  # less what chance would explain
    if len(shares) < 2:
        raise MisuseError(f"no two parameters of {times.kernel} have several measured values")
    first, second = sorted(shares, key=lambda column: -shares[column])[:2]
    return first, second


def _drawn(times: _Times, across: int, down: int) -> tuple[Figure, Any]:
    """The figure and its axes."""
    import matplotlib
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    axes = []  # of the two parameters: name, texts of the values, and the index among these of each configuration
    for column in (across, down):
        name, values = times.parameters[column]
        used, index = np.unique(times.indices[:, column], return_inverse=True)
        if len(used) > MOST_VALUES:
            raise MisuseError(f"{name} has {len(used)} measured values; at most {MOST_VALUES} can be drawn")
        texts = ["-" if (value := values[each]) is None else shown_setting(value) for each in used.tolist()]
        axes.append((name, texts, index))
    (name_across, columns, x), (name_down, rows, y) = axes
    least = np.full((len(rows), len(columns)), np.nan)  # (down, across) seconds; infinite: all failed, NaN: none
    np.fmin.at(least, (y, x), times.seconds)
    ran = np.isfinite(least)
    figure, axis = panel((max(5.5, 2.2 + 0.55 * len(columns)), 1.4 + 0.36 * max(3, len(rows))))
    colours = matplotlib.colormaps["cividis_r"].with_extremes(bad=_NO_CELL)
    slowest = float(least[ran].max())
    limit = max(min(slowest, _DARKEST * times.best), 1.01 * times.best)
    norm = LogNorm(times.best, limit)
    image = axis.imshow(np.ma.masked_where(~ran, least), cmap=colours, norm=norm, aspect="auto", origin="lower")
    if least.size <= _MOST_TEXTS:
        for row, column in np.argwhere(ran).tolist():
            dark = norm(least[row, column]) > 0.5
            axis.text(column, row, duration(least[row, column]), ha="center", va="center", fontsize=6,
                      color="white" if dark else "black")
    for row, column in np.argwhere(np.isinf(least)).tolist():
        axis.text(column, row, "failed", ha="center", va="center", fontsize=6, color=GREY)
    fastest = int(times.seconds.argmin())
    axis.add_patch(Rectangle((x[fastest] - 0.5, y[fastest] - 0.5), 1, 1, fill=False, edgecolor=VERMILION, linewidth=2))
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_xlabel(name_across)
    axis.set_ylabel(name_down)
    axis.grid(visible=False)
    marks = np.geomspace(times.best, limit, _MARKS)
    bar = figure.colorbar(image, ax=axis, label="least time", extend="max" if slowest > limit else "neither")
    bar.set_ticks(marks.tolist(), labels=list(map(duration, marks.tolist())))
    bar.minorticks_off()
    return figure, axis
