"""Style of all figures. Matplotlib is an extra (`pip install 'seqtune[plot]'`), loaded when a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqtune.kernels.files import replacing

from ..errors import check_installed

# Okabe and Ito's colours, which colour-blind readers can tell apart; seqtune itself is black.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777")
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # shares that an axis marks


def style() -> Any:
    """Matplotlib's pyplot with plain axes and reproducible files. Raises MissingPackageError without Matplotlib."""
    check_installed("plot", "matplotlib")
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({
        "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#e4e4e4", "axes.axisbelow": True,
        "savefig.facecolor": "white", "svg.hashsalt": "seqtune", "figure.constrained_layout.use": True})
    return pyplot


def save(figure: Any, path: Path) -> None:
    """Write the figure atomically, in the format that the name says, and close it. Raises SeqtuneError."""
    from matplotlib import pyplot

    suffix = path.suffix.lower()
    try:
        with replacing(path) as scratch:
            # without the date, the same figure is the same file
            figure.savefig(scratch, dpi=150, format=suffix[1:], metadata={"Date": None} if suffix == ".svg" else None)
    finally:
        pyplot.close(figure)


def share_axis(axis: Any, lowest: float) -> None:
    """Make the axis logarithmic in the distance from 1, so that shares near 1 can be told apart."""
    import numpy as np

    axis.set_yscale("function", functions=(lambda share: -np.log(np.maximum(1 - share, 1e-9)),
                                           lambda height: 1 - np.exp(-height)))
    axis.set_ylim(lowest, 0.9975)
    ticks = [tick for tick in (0.2, *TICKS) if tick >= lowest]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def height(share: float) -> float:
    """The share, limited to the range that a `share_axis` shows."""
    return min(share, 0.9972)


def apart(heights: Sequence[float], least: float) -> list[float]:
    """Heights of labels beside lines, moved as little as possible so that all are at least `least` apart.

    Their order stays.
    """
    order = sorted(range(len(heights)), key=lambda number: heights[number])
    groups: list[tuple[float, list[int]]] = []  # centre, members
    for number in order:
        centre, members = heights[number], [number]
        while groups and centre - least * (len(members) - 1) / 2 - (
                groups[-1][0] + least * (len(groups[-1][1]) - 1) / 2) < least:
            below, others = groups.pop()
            centre = (below * len(others) + centre * len(members)) / (len(others) + len(members))
            members = others + members
        groups.append((centre, members))
    moved = [0.0] * len(heights)
    for centre, members in groups:
        for rank, number in enumerate(members):
            moved[number] = centre + least * (rank - (len(members) - 1) / 2)
    return moved
