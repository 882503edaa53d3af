"""The table of a tuning run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...api.results import duration
from .console import out, show, table_of

if TYPE_CHECKING:
    from ...api.tuning.results import TuningReport


def tuned(outcome: TuningReport) -> None:
    """Print a line for each problem."""
    table = table_of("problem", "trials", "new", "failed", "default", "best", "sure", "configuration",
                   right=("trials", "new", "failed", "default", "best", "sure"))
    for result in outcome.results:
        best = result.best
        table.add_row(result.problem.brief(), str(result.trials), str(result.measured), str(result.failed),
                      duration(result.default_seconds), duration(result.best_seconds),
                      "-" if result.confidence is None else f"{result.confidence:.0%}",
                      "-" if best is None else f"{best.kernel} {best.brief()}")
    if outcome.results:
        show(table)
    for result in outcome.results:
        for note in result.notes():
            out.print(f"{result.problem.brief()}: {note}", markup=False, soft_wrap=True)
    for problem, reason in outcome.skipped:
        out.print(f"{problem.brief()}: not tuned: {reason}", markup=False, soft_wrap=True)
    for note in outcome.notes():
        out.print(note, markup=False, soft_wrap=True)
    source = f"journal: {outcome.journal}" if outcome.replayed is None else (
        f"replayed from {outcome.replayed}, {outcome.device.name}: nothing was measured, and no journal is kept")
    out.print(source, markup=False, soft_wrap=True)
    if outcome.interrupted:
        out.print("stopped: the times are those of trials, and no finals were held for what was not finished",
                   markup=False, soft_wrap=True)
    elif outcome.replayed is None and any(result.best is not None for result in outcome.results):
        out.print("times are those of the finals, where the fastest and the default are measured again, interleaved, "
                   "because the least of many trials is too low")
        if any(result.confidence is not None for result in outcome.results):
            out.print("sure: confidence that the best is faster than the second in the finals (signed-rank test; near "
                      "50 % they are alike); it says nothing of the default, nor of what was not tried")
