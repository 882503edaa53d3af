"""Tables of an explanation: constraints and costs a step away, known problems, and the facts that decided."""

from __future__ import annotations

import typer

from seqtune.predictor.confidence.explanation import Explanation

from ..results import duration
from .tables import rows


def explanation(answer: Explanation) -> None:
    """Print why the first proposal was made."""
    typer.echo("one value away from the first proposal: expected time, or the constraint that forbids it")
    rows([{"parameter": step.parameter, "value": str(step.value), "next": str(step.next_value),
           "means": step.reason or ("-" if step.slowdown is None else f"{step.slowdown:.2f}x the time")}
          for step in answer.steps])
    if answer.known:
        typer.echo("the nearest problems of the shipped data, and their fastest configurations")
        rows([{"problem": known.problem.brief(), "device": known.device.name,
               "winner": f"{known.winner.kernel} {known.winner.brief()}", "time": duration(known.seconds)}
              for known in answer.known])
    if answer.facts:
        typer.echo("facts that decided: the second proposal's expected time over the first's, with the fact and with "
                   "the known ones' median instead (a simple ablation)")
        rows([{"fact": fact.fact, "value": f"{fact.value:g}", "median": f"{fact.median:g}",
               "lead": f"{fact.lead:.3f}", "without": f"{fact.lead_without:.3f}"} for fact in answer.facts])
