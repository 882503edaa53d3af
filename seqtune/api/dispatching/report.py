"""Report: what a dispatch tells its reader, as sections that a page and the command line show alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from seqtune.kernels.problem import Problem

from .results import Dispatched

_GOALS = {"mean": "mean share of the best speed", "worst": "share of the best speed in the slowest tenth",
          "within": "share of shapes that are fast enough"}
_WAYS = {"rule": "the rule's first kernel", "raced": "the faster of its first two, timed once for each shape",
         "sure": "its first kernel, where it is sure"}


@dataclass(frozen=True)
class Section:
    """A part of the report: a table, which may be empty, and lines below it."""

    title: str
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    lines: Sequence[str] = ()


def sections(result: Dispatched, most: int) -> list[Section]:
    """The report, in which lists name up to `most` shapes."""
    measured, unsure = result.measuring, result.unsure
    sized = ["bytes"] if result.served[0].bytes is not None else []
    given = ", ".join(f"{name} {reached(result.goal, loss)}" for name, loss in result.losses.items())
    bounds = {words: getattr(result.bounds, way, None) for way, words in _WAYS.items()}
    more = len(result.deserving) - most
    return [
        Section(f"{_GOALS[result.goal]}, on shapes that the rule did not learn from".capitalize(),
                ("kernels", "fastest of them", "the rule's first", "faster of its two", ""),
                [(str(each.kernels), *(reached(result.goal, loss) for loss in (each.oracle, each.rule, each.second)),
                  "<- these ship" if each.kernels == result.kernels else "") for each in result.curve],
                [f"on the given shapes: {given}"]),
        Section("Kernels that ship", ("", "configuration", *sized, "share", "shapes", "for example"),
                [(str(number), f"{each.member.kernel} {each.member.brief()}", *(str(each.bytes) for _ in sized),
                  f"{each.weight:.0%}", str(len(each.problems)), _named(each.problems, most))
                 for number, each in enumerate(result.served)]),
        Section("Promise for other shapes", lines=[f"{way}: {bound.text()}" for way, bound in bounds.items()
                                                   if bound is not None] or ["none: too few shapes were measured"]),
        Section("Shapes that deserve a kernel of their own", ("problem", "times as fast", "with"),
                [(own.problem.brief(), f"{own.gain:.2f}{'' if own.measured else ' (expected)'}",
                  f"{own.configuration.kernel} {own.configuration.brief()}") for own in result.deserving[:most]],
                [f"and {more} more"] if more > 0 else [] if result.deserving else ["none"]),
        Section("Shapes of which the rule is not sure: race its first two there",
                lines=[f"{len(unsure)}: {_named(unsure, most)}" if unsure else "none"]),
        Section("Measured", lines=[
            f"{measured.known} of {measured.shapes} x {measured.candidates} pairs of shape and candidate are known"
            f"{'' if measured.complete else ' (the time ended)'}; this call measured {measured.measured or 'nothing'}",
            *result.notes, *(f"written: {path}" for path in result.files)])]


def reached(goal: str, loss: float) -> str:
    """A loss of a goal as what it leaves: a share of the best speed, or the share of shapes that are fast enough."""
    return f"{1 - loss if goal == 'within' else math.exp(-loss):.3f}"


def _named(problems: Sequence[Problem], most: int) -> str:
    """The first of several problems, and how many others there are."""
    words = [problem.brief().partition(" ")[2] for problem in problems[:most]]
    return "; ".join([*words, f"and {len(problems) - most} more"] if len(problems) > most else words)
