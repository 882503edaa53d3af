"""Predictions: how fast proposals are by the number of measurements, and what the experts expect of one answer's."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from seqtune.predictor.learning.tasks.shares import OURS, EvaluationRow

from ..errors import MisuseError
from .picture import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    height,
    label_ends,
    panel,
    panels,
    share_axis,
    style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqtune.predictor.learning.kinds import ResultRow

    from ..api.results import Answer, Prediction

EVERYWHERE = "all devices"  # the device of rows over all cases; a case is a problem on a device
SCALE = ("1 is the speed of the fastest known configuration. The scale grows towards 1: from 0.9 to 0.99 is as far as "
         "from 0 to 0.9. Bars are 95 % intervals of seqtune's shares.")
# method -> colour, marker, width, dashes; in the order in which they are drawn
METHODS: dict[str, tuple[str, str, float, str]] = {
    OURS: (BLUE, "o", 2.6, "-"), "transformer": (SKY, "P", 1.3, "-"), "trees": (VERMILION, "s", 1.3, "-"),
    "nearest": (GREEN, "^", 1.3, "-"), "fixed": (PURPLE, "D", 1.3, "-"), "random": (ORANGE, "v", 1.3, "--"),
    "default": (GREY, "", 1.3, ":"),
}
MOST_PANELS = 60
_ACROSS = 3
_GAP = 0.075  # share of the panel's height between two labels
_LETTER = 0.078  # inches that a letter beside a row takes
_LONGEST = 60  # characters of a configuration beside its row


@style()
def shares(rows: Sequence[ResultRow]) -> Figure:
    """Draw the shares of methods by the number of measured proposals: `seqtune.evaluate(...).rows`, a panel per device.

    0 is the first proposal without a measurement, n the best of n measured proposals. A share is the geometric mean
    over problems of the best known time divided by that of the choice, on an axis that is logarithmic in the distance
    from 1; bars are the 95 % intervals of `seqtune`'s shares. Raises MisuseError if the rows are not those of an
    evaluation on times or have more than 60 devices, MissingPackageError without Matplotlib.
    """
    by_device: dict[str, list[EvaluationRow]] = {}
    for row in rows:
        if not isinstance(row, EvaluationRow):
            raise MisuseError("these rows are not those of an evaluation on measured times; they have no shares by the "
                              "number of measured proposals")
        by_device.setdefault(row.device, []).append(row)
    if not 0 < len(by_device) <= MOST_PANELS:
        raise MisuseError(f"{len(by_device)} devices cannot be drawn; give the rows of 1 to {MOST_PANELS}")
    across = min(_ACROSS, len(by_device))
    down = -(-len(by_device) // across)
    width = max(4.2, 2.9 * across)
    figure, axes = panels(down, across, (width, 2.75 * down + 0.3))
    lowest = max(0.0, math.floor(min(row.share for own in by_device.values() for row in own) * 20 - 0.2) / 20)
    for index, axis in enumerate(axes.flat):
        if index >= len(by_device):
            axis.set_axis_off()
            continue
        device, own = list(by_device.items())[index]
        axis.set_title(f"{device}\n{own[0].problems} {'cases' if device == EVERYWHERE else 'problems'}", loc="left",
                       fontweight="bold" if device == EVERYWHERE else "normal")
        share_axis(axis, lowest)
        counts = sorted({row.measured for row in own})
        _lines(axis, own, counts[-1], lowest)
        axis.set_xticks(counts)
        axis.spines["bottom"].set_bounds(0, counts[-1])
        if index % across:
            axis.tick_params(labelleft=False)
        if index + across >= len(by_device):
            axis.set_xlabel("measured proposals", loc="left")
    figure.supylabel("share of the best known speed", fontsize=9)
    figure.suptitle(textwrap.fill(SCALE, int(14 * width)), fontsize=9, x=0.01, ha="left")
    return figure


def _lines(axis: Any, rows: Sequence[EvaluationRow], most: int, lowest: float) -> None:
    """A line for each method, labelled at its end, which is at `most` measured proposals."""
    known = dict.fromkeys(row.method for row in rows)
    methods = sorted(known, key=lambda name: [*METHODS].index(name) if name in METHODS else len(METHODS))
    ends, unit = [], max(1, most)
    colours = [METHODS[name][0] if name in METHODS else COLOURS[number % len(COLOURS)]
               for number, name in enumerate(methods)]
    for name, colour in zip(methods, colours, strict=True):
        _, marker, width, dashes = METHODS.get(name, (colour, ".", 1.3, "-"))
        own = sorted((row for row in rows if row.method == name), key=lambda row: row.measured)
        drawn = [height(row.share) for row in own]
        axis.plot([row.measured for row in own], drawn, dashes, color=colour, marker=marker, markersize=4, label=name,
                  linewidth=width, zorder=3 if name == OURS else 2, clip_on=False)
        if name == OURS:
            axis.vlines([row.measured for row in own], [max(lowest, height(row.share_low)) for row in own],
                        [height(row.share_high) for row in own], color=colour, linewidth=0.9)
        ends.append(drawn[-1])
    label_ends(axis, list(zip(methods, ends, colours, strict=True)), lowest, _GAP,
               (most + 0.024 * unit, most + 0.08 * unit, most + 0.1 * unit), bold=OURS)
    axis.set_xlim(-0.06 * unit, most + 0.48 * unit)


@style()
def experts(prediction: Prediction) -> Figure:
    """Draw what each expert expects of each candidate: `seqtune.predict(..., explain=True)`.

    A row is a candidate, most probable first, with its probability; a column is an expert, and the last column is their
    mean. A cell is the expected share of the best speed, from 0 to 1. Raises MisuseError if the prediction was not
    explained or its predictor has no experts, MissingPackageError without Matplotlib.
    """
    explanation = prediction.explanation
    if explanation is None:
        raise MisuseError("this prediction has no explanation; ask for one with explain=True")
    if not explanation.experts:
        raise MisuseError(f"predictor {prediction.predictor} has no experts whose expectations could be shown")
    columns = [*(expert.shares for expert in explanation.experts), explanation.mean_shares]
    names = [*(expert.expert.replace("_", " ") for expert in explanation.experts), "mean"]
    count = len(prediction.candidates)
    rows = [_row_label(number, proposal) for number, proposal in enumerate(prediction.candidates, start=1)]
    lowest = min(map(min, columns))
    figure, axis = panel((0.4 + _LETTER * max(map(len, rows)) + 0.8 * len(columns), 1.2 + 0.28 * count))
    axis.imshow(list(zip(*columns, strict=True)), cmap="cividis", vmin=lowest, vmax=1, aspect="auto")
    axis.set_xticks(range(len(names)), names)
    axis.xaxis.tick_top()
    axis.set_yticks(range(count), rows)
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)
    axis.axvline(len(columns) - 1.5, color="white", linewidth=2)
    for column, values in enumerate(columns):
        for row, share in enumerate(values):
            axis.text(column, row, f"{share:.2f}", ha="center", va="center",
                      color="white" if share < (1 + lowest) / 2 else "black")
    figure.suptitle(f"Expected share of the best speed: {prediction.problem.brief()} on {prediction.device.name}",
                    x=0.01, ha="left")
    return figure


def _row_label(number: int, proposal: Answer) -> str:
    configuration = proposal.configuration
    text = f"{configuration.kernel} {configuration.brief()}"
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST - 1]}…"
    chance = "" if proposal.probability is None else f"  ({proposal.probability:.2f})"
    return f"{number}  {short}{chance}"
