"""Convergence curves: the mean share of the optimum over the evaluations, one panel for each space and device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MisuseError
from .style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, apart, height, save, share_axis, style

if TYPE_CHECKING:
    from seqtune.tuner.run.simulation import Curves

FORMS = (".svg", ".png", ".pdf")
MOST_PANELS = 60
_COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)
_DASHES = ("-", "--", ":")  # the next style once all colours are used
_ACROSS = 3
_POINTS = 24  # points of a line, denser at its beginning
_GAP = 0.06  # share of the panel's height between two labels


def check_drawable(path: Path) -> None:
    """Check before a long search that `draw` can write the figure. Raises MisuseError, UnavailableError."""
    if path.suffix.lower() not in FORMS:
        raise MisuseError(f"{path} is not the name of a figure; it should end in {', '.join(FORMS)}")
    style()


def draw(curves: Sequence[Curves], path: Path) -> None:
    """Write the figure. Raises SeqtuneError where that fails."""
    panels: dict[tuple[str, str], list[Curves]] = {}
    for curve in curves:
        panels.setdefault((curve.space, curve.device), []).append(curve)
    if len(panels) > MOST_PANELS:
        raise MisuseError(f"{len(panels)} panels are too many for a figure; choose some of the spaces or devices")
    pyplot = style()
    pyplot.rcParams["svg.fonttype"] = "none"  # small files
    across = min(_ACROSS, len(panels))
    down = -(-len(panels) // across)
    figure, axes = pyplot.subplots(down, across, figsize=(3.6 * across, 2.7 * down), squeeze=False)
    for index, axis in enumerate(axes.flat):
        if index >= len(panels):
            axis.set_axis_off()
            continue
        (space, device), shown = list(panels.items())[index]
        _panel(axis, shown)
        axis.set_title(f"{space}, {device}"[:60], loc="left")
        if index + across >= len(panels):
            axis.set_xlabel("evaluations", loc="left")
    figure.supylabel("mean share of the optimum's speed", fontsize=9)
    save(figure, path)


def _panel(axis: Any, curves: Sequence[Curves]) -> None:
    means = [curve.shares.mean(axis=0) for curve in curves]
    trials = max(map(len, means))
    lowest = max(0.0, math.floor(min(float(mean[min(len(mean), 5) - 1]) for mean in means) * 20 - 0.2) / 20)
    share_axis(axis, lowest)
    ends = [-math.log(1 - height(max(float(mean[-1]), lowest))) for mean in means]
    bottom, top = -math.log(1 - lowest), -math.log(1 - 0.9975)
    labels = apart(ends, _GAP * (top - bottom))
    for number, (curve, mean, end, label) in enumerate(zip(curves, means, ends, labels, strict=True)):
        colour, dashes = _COLOURS[number % len(_COLOURS)], _DASHES[number // len(_COLOURS) % len(_DASHES)]
        chosen = sorted({round((point / _POINTS)**2 * (len(mean) - 1)) for point in range(_POINTS + 1)})
        axis.plot([index + 1 for index in chosen], [height(float(mean[index])) for index in chosen], dashes,
                  color=colour, linewidth=1.5)
        axis.plot([trials * 1.01, trials * 1.05], [1 - math.exp(-end), 1 - math.exp(-label)], color=colour,
                  linewidth=0.6, clip_on=False)
        axis.text(trials * 1.06, 1 - math.exp(-label), curve.method, color=colour, va="center", fontsize=7)
    axis.set_xlim(0, trials * 1.45)
    axis.spines["bottom"].set_bounds(0, trials)
    axis.set_xticks([0, trials // 4, trials // 2, 3 * trials // 4, trials] if trials >= 4 else [0, trials])
