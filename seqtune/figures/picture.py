"""Picture: a Matplotlib figure in the style of all figures. Matplotlib is an extra (`pip install 'seqtune[plot]'`).

Matplotlib's settings of the caller are never changed, pyplot is not loaded, and no window opens: a notebook shows the
returned figure, and its method `savefig` writes it to a file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seqtune.kernels.files import replacing

from ..errors import check_installed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind readers can tell apart; seqtune itself is black.
BLACK, ORANGE, SKY, GREEN, BLUE, VERMILION, PURPLE, GREY = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7", "#777777")
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK, GREY)  # of lines and bars, in this order
TICKS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995)  # shares that an axis marks
SETTINGS: Any = {  # Matplotlib has a type of its own for their names
    "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": "#e4e4e4", "axes.axisbelow": True,
    "savefig.facecolor": "white", "svg.hashsalt": "seqtune", "figure.constrained_layout.use": True}
DPI = 150  # of pixels in files and notebooks


@contextmanager
def style() -> Iterator[None]:
    """Plain axes and reproducible files, as a context or as the decorator of a function that draws.

    Raises MissingPackageError without Matplotlib.
    """
    check_installed("plot", "matplotlib")
    from matplotlib import rc_context

    with rc_context(SETTINGS):
        yield


@cache
def _picture() -> type[Figure]:
    from matplotlib.figure import Figure

    class Picture(Figure):
        """A figure that keeps its style wherever it is drawn, and shows itself in notebooks."""

        def draw(self, renderer: Any) -> None:
            with style():
                super().draw(renderer)

        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, dpi=DPI, format="png")
            return file.getvalue()

    return Picture


def panels(down: int, across: int, size: tuple[float, float]) -> tuple[Figure, Any]:
    """A new figure with `down` x `across` axes, as an array (down, across), and a size in inches (width, height).

    It is called within `style`.
    """
    figure = _picture()(figsize=size)
    return figure, figure.subplots(down, across, squeeze=False)


def panel(size: tuple[float, float]) -> tuple[Figure, Any]:
    """A new figure with one pair of axes, and a size in inches (width, height). It is called within `style`."""
    figure, axes = panels(1, 1, size)
    return figure, axes[0, 0]


def save(figure: Figure, path: Path, with_text: bool = False) -> None:
    """Write the figure atomically, in the format that the name says. Raises SeqtuneError.

    An SVG has curves for letters, or with `with_text` the letters themselves: a smaller file, in the reader's font.
    """
    suffix = path.suffix.lower()
    with replacing(path) as scratch, style():
        from matplotlib import rc_context

        with rc_context({"svg.fonttype": "none" if with_text else "path"}):
            # without the date, the same figure is the same file
            figure.savefig(scratch, dpi=DPI, format=suffix[1:], metadata={"Date": None} if suffix == ".svg" else None)


HIGHEST = 0.9975  # the upper end of a share axis


def share_axis(axis: Any, lowest: float) -> None:
    """Make the axis logarithmic in the distance from 1, so that shares near 1 can be told apart."""
    import numpy as np

    axis.set_yscale("function", functions=(lambda share: -np.log(np.maximum(1 - share, 1e-9)),
                                           lambda height: 1 - np.exp(-height)))
    axis.set_ylim(lowest, HIGHEST)
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


def label_ends(axis: Any, ends: Sequence[tuple[str, float, str]], lowest: float, gap: float,
               across: tuple[float, float, float], bold: str = "", **text: Any) -> None:
    """Write names beside the ends of lines on a `share_axis` that begins at `lowest`, and connect each with its end.

    `ends` are the name, the share as `height` limits it, and the colour of each line; labels are at least `gap` of the
    axis apart. `across` are the places where the connection begins and ends and where the text begins. The name `bold`
    stands out; `text` are further properties of all texts.
    """
    heights = [-math.log(1 - share) for _, share, _ in ends]
    labels = apart(heights, gap * math.log((1 - lowest) / (1 - HIGHEST)))
    for (name, _, colour), end, label in zip(ends, heights, labels, strict=True):
        beside = 1 - math.exp(-label)
        axis.plot(across[:2], [1 - math.exp(-end), beside], color=colour, linewidth=0.6, clip_on=False)
        axis.text(across[2], beside, name, color=colour, va="center", fontweight="bold" if name == bold else "normal",
                  **text)
