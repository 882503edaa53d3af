"""Tables of a dispatch: the curve with its knee, the kernels with their shapes, the bound, and who wants more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.dispatching.page import given, reached, ways
from .console import out, show, table_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seqtune.kernels.problem import Problem

    from ...api.dispatching.results import Dispatched

MOST_SHAPES = 3  # of a kernel, and of each list, that are named
MOST_DESERVING = 8


def dispatched(result: Dispatched) -> None:
    """Print what a dispatch found; everything is also in the page of its folder."""
    out.print(f"{result.operation} on {result.device}: {_said(result)}, on shapes that the rule did not learn from",
              markup=False, soft_wrap=True)
    curve = table_of("kernels", "fastest of them", "the rule's first", "faster of its two", "",
                     right=("kernels", "fastest of them", "the rule's first", "faster of its two"))
    for point in result.curve:
        curve.add_row(str(point.kernels), *(reached(result.goal, loss)
                                            for loss in (point.oracle, point.rule, point.second)),
                      "<- these ship" if point.kernels == result.kernels else "")
    show(curve)
    chosen = table_of("", "configuration", "share", "shapes", "for example", right=("share", "shapes"))
    for number, served in enumerate(result.served):
        chosen.add_row(str(number), f"{served.member.kernel} {served.member.brief()}", f"{served.weight:.0%}",
                       str(len(served.problems)), named(served.problems))
    show(chosen)
    lines = [f"on the given shapes: {given(result)}"]
    lines += [f"{way}: {bound.text()}" for way, bound in ways(result)]
    lines += [f"{own.problem.brief()} deserves a kernel of its own: {own.gain:.2f} times as fast"
              f"{'' if own.measured else ', as expected'}" for own in result.deserving[:MOST_DESERVING]]
    if len(result.deserving) > MOST_DESERVING:
        lines.append(f"so do {len(result.deserving) - MOST_DESERVING} more (see the page)")
    if result.unsure:
        lines.append(f"the rule is not sure of {len(result.unsure)} of these; race its first two there: "
                     f"{named(result.unsure)}")
    measuring = result.measuring
    new = f"this call measured {measuring.measured} times" if measuring.measured else "this call measured nothing"
    lines.append(f"known: {measuring.known} of {measuring.shapes * measuring.candidates} pairs of shape and candidate; "
                 f"{new}")
    for text in [*lines, *result.notes, *(f"written: {path}" for path in result.files)]:
        out.print(text, markup=False, soft_wrap=True)


def named(problems: Sequence[Problem]) -> str:
    """The first of several problems, and how many others there are."""
    words = [problem.brief().partition(" ")[2] for problem in problems[:MOST_SHAPES]]
    more = len(problems) - len(words)
    return "; ".join(words) + (f"; and {more} more" if more else "")


def _said(result: Dispatched) -> str:
    return {"mean": "mean share of the best speed", "worst": "share of the best speed in the slowest tenth",
            "within": "share of shapes that are fast enough"}[result.goal]
