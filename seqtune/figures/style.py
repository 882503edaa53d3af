"""Figures: the style that all of them share. Matplotlib is an extra (`pip install 'seqtune[plot]'`), loaded when one is
drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqtune.kernels.files import replacing

from ..errors import UnavailableError

# Okabe and Ito's colours, which stay apart for colour-blind readers; black for what seqtune does.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777")
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # of an axis of shares


def style() -> Any:
    """pyplot with plain axes; the same input gives the same file."""
    try:
        import matplotlib
    except ImportError:
        raise UnavailableError("matplotlib is not installed: pip install 'seqtune[plot]'") from None
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
    """Shares near 1 apart: the axis is logarithmic in the distance from 1."""
    import numpy as np

    axis.set_yscale("function", functions=(lambda share: -np.log(np.maximum(1 - share, 1e-9)),
                                           lambda height: 1 - np.exp(-height)))
    axis.set_ylim(lowest, 0.9975)
    ticks = [tick for tick in (0.2, *TICKS) if tick >= lowest]
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()


def height(share: float) -> float:
    """A share that a `share_axis` can show."""
    return min(share, 0.9972)


def apart(places: Sequence[float], least: float) -> list[float]:
    """The places moved as little as keeps each pair `least` apart, in their order: for labels beside lines."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    groups: list[tuple[float, list[int]]] = []  # centre, members
    for number in order:
        centre, members = places[number], [number]
        while groups and centre - least * (len(members) - 1) / 2 - (
                groups[-1][0] + least * (len(groups[-1][1]) - 1) / 2) < least:
            before, those = groups.pop()
            centre = (before * len(those) + centre * len(members)) / (len(those) + len(members))
            members = those + members
        groups.append((centre, members))
    found = [0.0] * len(places)
    for centre, members in groups:
        for place, number in enumerate(members):
            found[number] = centre + least * (place - (len(members) - 1) / 2)
    return found
