"""Tables of data and models: imports, trainings, retrainings, evaluations and replays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..progress import note
from .console import fields, out, rows, show, table_of

if TYPE_CHECKING:
    from ...api.replaying import Replayed

_EVALUATED = """measured: 0 is the first proposal, unmeasured; n is the best of n measured proposals
share: geometric mean over the problems of best known time / time of the pick
share_low, share_high: its 95 % interval (bootstrap of problems); ceiling: share of an oracle whose choice is re-tested
low, high: 95 % interval of seqtune's share minus this method's; worse: seqtune is below it, the whole interval is
regret_ratio: (1 - share) / (1 - share of fixed); unmeasured: configurations without a measurement, left out"""
_AGREED = """exact, block: share of choices that the first proposal equals, or whose block it has; copies count once
per_parameter: mean share of parameters; rank: median share of valid configurations that are expected to be faster"""
_RETRAINED = ("before, after: share of the best known speed (geometric mean over the problems); new, old: held-out "
              "problems of the new or the old records; change: after - before, with its 95 % interval (paired "
              "bootstrap of the problems); †: the share falls, the whole interval is below 0")


def imported(summary: Mapping[str, Any]) -> None:
    """Print what an import read from each file, and what it left out and why."""
    files = summary["files"]
    names = [Path(file["path"]).name for file in files]
    if len(set(names)) < len(names) and all("problem" in file for file in files):  # Triton's, in folders with hashes
        names = [f"{file['kernel']} {file['problem']}" for file in files]
        labels: list[dict[str, str]] = [{} for _ in files]
    else:
        labels = [{"file": name} for name in names]
    rows([{**label, **{name: len(value) if name == "solvers" else value for name, value in file.items()
                       if name not in ("path", "skipped")},
           "left_out": sum(file["skipped"].values())} for label, file in zip(labels, files, strict=True)])
    for label, file in zip(names, files, strict=True):
        for reason, count in file["skipped"].items():
            out.say(f"{label}: left out {count}: {reason}")
    fields({name: summary[name] for name in ("out", "records", "problems", "held_out")})


def trained(report: Mapping[str, Any]) -> None:
    """Print the report of a training without its epochs, which the progress showed and --json lists."""
    fields({name: value for name, value in report.items() if name != "history"})
    if "cross_validation" in report:
        out.say("share_low, share_high: 95 % interval of the share; low, high: that of seqtune's share minus the "
                "method's")


def retrained(report: Mapping[str, Any]) -> None:
    """Print the shares before and after by device, what was learned from, the unchanged devices, and the notes."""
    rows = report["evaluated"]
    with_scratch = any(row["scratch"] is not None for row in rows)
    table = table_of("device", "problems", "proposal", "before", "after", "change",
                   *(["from scratch"] if with_scratch else []),
                   right=("problems", "before", "after", "from scratch"))
    table.columns[0].no_wrap = False  # a label has a blank; all else is as narrow as it can be
    last = None
    for row in rows:
        group = (row["device"], f"{row['problems']} {row['records']}")
        proposal = "first" if row["measured"] == 0 else f"best of {row['measured']}"
        table.add_row(*(group if group != last else ("", "")), proposal, _share(row["before"]), _share(row["after"]),
                      _change(row), *([_share(row["scratch"])] if with_scratch else []))
        last = group
    if rows:
        show(table)
        out.print(_RETRAINED, markup=False)
    ended = ("stopped early" if report["interrupted"] else "ended by the time limit (--minutes)"
             if report["out_of_time"] else "complete")
    out.print(f"learned from: {report['new_problems']} problems on {', '.join(report['new_devices'])} (left out: "
               f"{report['left_out']}), and {report['old_cases']} old cases again; {report['epochs']} epochs in "
               f"{report['seconds']:.0f} s, {ended}", markup=False)
    if report["unchanged"]:
        out.print(f"unchanged answers: {', '.join(report['unchanged'])}", markup=False)
    out.say(f"checkpoint: {report['out']}")
    for line in report["remarks"]:
        note(line)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _change(row: Mapping[str, Any]) -> str:
    if row["difference"] is None:
        return "-"
    interval = "" if row["low"] is None else f" [{row['low']:+z.3f}, {row['high']:+z.3f}]"
    return f"{row['difference']:+z.3f}{interval}{' †' if row['falls'] else ''}"


def evaluation(shares: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows of an evaluation, and what their columns mean.

    A row about a solver becomes a line, followed by one for each of its parts; rows without a solver follow, in a table
    of their own.
    """
    lines = []
    for row in shares:
        if "solver" in row:
            own = {name: value for name, value in row.items() if name != "parts"}
            names = {name: own.pop(name) for name in ("device", "solver")}
            scores = {"seqtune": own, **row.get("parts", {})}
            lines += [{**names, "method": method, **score} for method, score in scores.items()]
    rows(lines, by="device")
    agreed = [{name: value for name, value in row.items() if name != "parameters"} for row in shares if "exact" in row
              and "solver" not in row]
    rows(agreed, by="device")
    if agreed:
        out.say(_AGREED)
    others = [row for row in shares if "solver" not in row and "exact" not in row]
    rows(others, by="device")
    if any("method" in row for row in others):
        out.say(_EVALUATED)


def replayed(result: Replayed) -> None:
    """Print rows by budget, then the medians, and what they mean."""
    rows(result.rows(), by="device")
    rows([{name: f"{value:g}" if isinstance(value, float) else value for name, value in row.items()}
          for row in result.medians()], right=("to_95", "to_99"), by="device")
    out.print("share_mean: optimum / best result, mean over the repeats; share_sem: its standard error\nto_95, to_99: "
               "median evaluations until that share; -: half of the searches end without", markup=False)
