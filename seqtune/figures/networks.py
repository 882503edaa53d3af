"""Networks: the times of a network's steps as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import MisuseError, shown
from .picture import COLOURS, GREY, panel, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqtune.networks.explanation import NetworkExplanation

MOST_BARS = 200
_LONGEST = 48  # characters of an operation beside its bar


@style()
def steps(explanation: NetworkExplanation, most: int = 40) -> Figure:
    """Draw the steps of an optimised network in their order: `seqtune.pytorch.explain(...)`, a bar for each.

    A bar is the least time of a step alone, in microseconds, coloured by the kernel family that computes it. The `most`
    longest steps have a bar of their own, at most 200; the last bar is the sum of all others. Raises MisuseError
    without steps and for a wrong `most`, MissingPackageError without Matplotlib.
    """
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_BARS:
        raise MisuseError(f"most={shown(most)}; it must be a whole number in 1..{MOST_BARS}")
    if not explanation.steps:
        raise MisuseError("this network has no steps to draw; PyTorch computes all of it")
    longest = {step.number for step in sorted(explanation.steps, key=lambda step: -step.seconds)[:most]}
    bars = [step for step in explanation.steps if step.number in longest]
    rest = [step.seconds for step in explanation.steps if step.number not in longest]
    families = dict.fromkeys(step.kernel for step in bars)
    colours = {kernel: GREY if kernel == "step" else COLOURS[number % (len(COLOURS) - 1)]
               for number, kernel in enumerate(sorted(families, key=lambda kernel: kernel == "step"))}
    figure, axis = panel((7.6, 1.0 + 0.19 * (len(bars) + bool(rest))))
    drawn = []  # for the legend, in its order
    for kernel, colour in colours.items():
        own = [(place, step.seconds * 1e6) for place, step in enumerate(bars) if step.kernel == kernel]
        drawn.append(axis.barh(*zip(*own, strict=True), color=colour,
                               label="generated code" if kernel == "step" else kernel))
    if rest:
        drawn.append(axis.barh(len(bars), sum(rest) * 1e6, color="none", edgecolor=GREY,
                               label=f"the other {len(rest)} steps"))
    axis.set_yticks(range(len(bars) + bool(rest)), [
        *(f"{step.number}  {step.operation[:_LONGEST]}" for step in bars), *(["others"] if rest else [])])
    axis.invert_yaxis()
    axis.grid(visible=False, axis="y")
    axis.grid(visible=True, axis="x")
    axis.set_xlabel("µs", loc="left")
    axis.set_title(explanation.total, loc="left")
    figure.legend(handles=drawn, loc="outside lower left", ncols=3, frameon=False)
    return figure
