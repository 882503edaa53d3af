"""Searches: the mean share of the optimum over the evaluations, one panel for each space and device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MisuseError, check_installed
from .picture import COLOURS, height, label_ends, panels, share_axis, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqtune.tuner.run.simulation import Curves

FORMS = (".svg", ".png", ".pdf")
MOST_PANELS = 60
_DASHES = ("-", "--", ":")  # the next style once all colours are used
_ACROSS = 3
_POINTS = 24  # points of a line, denser at its beginning
_LONGEST = 48  # characters in a line of a title
_GAP = 0.06  # share of the panel's height between two labels


def check_drawable(path: Path) -> None:
    """Check before a long search that a figure can be drawn into a file. Raises MisuseError, MissingPackageError."""
    if path.suffix.lower() not in FORMS:
        raise MisuseError(f"{path} is not the name of a figure; it should end in {', '.join(FORMS)}")
    check_installed("plot", "matplotlib")


@style()
def convergence(curves: Sequence[Curves]) -> Figure:
    """Draw how fast searches find the optimum: `seqtune.replay(...).curves`, a panel for each space and device.

    A line is the mean share of the optimum's speed (1 is the optimum) that a method's runs have reached after so many
    evaluations, on an axis that is logarithmic in the distance from 1. The band is its 95 % interval, by a bootstrap of
    the runs. Raises MisuseError for more than 60 panels or none, MissingPackageError without Matplotlib.
    """
    shown: dict[tuple[str, str], list[Curves]] = {}
    for curve in curves:
        shown.setdefault((curve.space, curve.device), []).append(curve)
    if not shown:
        raise MisuseError("there are no curves to draw")
    if len(shown) > MOST_PANELS:
        raise MisuseError(f"{len(shown)} panels are too many for a figure; choose some of the spaces or devices")
    across = min(_ACROSS, len(shown))
    down = -(-len(shown) // across)
    figure, axes = panels(down, across, (3.6 * across, 2.8 * down))
    for index, axis in enumerate(axes.flat):
        if index >= len(shown):
            axis.set_axis_off()
            continue
        (space, device), methods = list(shown.items())[index]
        _panel(axis, methods)
        axis.set_title(f"{space[:_LONGEST]}\n{device[:_LONGEST]}", loc="left")
        if index + across >= len(shown):
            axis.set_xlabel("evaluations", loc="left")
    figure.supylabel("mean share of the optimum's speed", fontsize=9)
    return figure


def _panel(axis: Any, curves: Sequence[Curves]) -> None:
    means = [curve.shares.mean(axis=0) for curve in curves]
    trials = max(map(len, means))
    lowest = max(0.0, math.floor(min(float(mean[min(len(mean), 5) - 1]) for mean in means) * 20 - 0.2) / 20)
    share_axis(axis, lowest)
    ends = []
    for number, (curve, mean) in enumerate(zip(curves, means, strict=True)):
        colour, dashes = COLOURS[number % len(COLOURS)], _DASHES[number // len(COLOURS) % len(_DASHES)]
        chosen = sorted({round((point / _POINTS)**2 * (len(mean) - 1)) for point in range(_POINTS + 1)})
        evaluations = [index + 1 for index in chosen]
        axis.plot(evaluations, [height(float(mean[index])) for index in chosen], dashes, color=colour, linewidth=1.5,
                  label=curve.method)
        if len(curve.shares) > 1:
            axis.fill_between(evaluations, *([height(float(share)) for share in ends_of_interval]
                                             for ends_of_interval in curve.interval(evaluations)),
                              color=colour, alpha=0.15, linewidth=0)
        ends.append((curve.method, height(max(float(mean[-1]), lowest)), colour))
    label_ends(axis, ends, lowest, _GAP, (trials * 1.01, trials * 1.05, trials * 1.06), fontsize=7)
    axis.set_xlim(0, trials * 1.45)
    axis.spines["bottom"].set_bounds(0, trials)
    axis.set_xticks([0, trials // 4, trials // 2, 3 * trials // 4, trials] if trials >= 4 else [0, trials])
