"""The table of a retraining."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .progress import note
from .tables import _out, _table

_COLUMNS = ("before, after: share of the best known speed (geometric mean over the problems); new, old: held-out "
            "problems of the new or the old records; change: after - before, with its 95 % interval (paired bootstrap "
            "of the problems); †: the share falls, the whole interval is below 0")


def retrained(report: Mapping[str, Any]) -> None:
    """Print the shares before and after by device, what was learned from, the unchanged devices, and the remarks."""
    rows = report["judged"]
    with_scratch = any(row["scratch"] is not None for row in rows)
    table = _table("device", "problems", "proposal", "before", "after", "change",
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
        _out.print(table)
        _out.print(_COLUMNS, markup=False)
    ended = ("stopped early" if report["interrupted"] else "ended by the time limit (--minutes)"
             if report["out_of_time"] else "complete")
    _out.print(f"learned from: {report['new_problems']} problems on {', '.join(report['new_devices'])} (left out: "
               f"{report['left_out']}), and {report['old_cases']} old cases again; {report['epochs']} epochs in "
               f"{report['seconds']:.0f} s, {ended}", markup=False)
    if report["unchanged"]:
        _out.print(f"unchanged answers: {', '.join(report['unchanged'])}", markup=False)
    _out.print(f"checkpoint: {report['out']}", markup=False, soft_wrap=True)
    for remark in report["remarks"]:
        note(remark)


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def _change(row: Mapping[str, Any]) -> str:
    if row["difference"] is None:
        return "-"
    interval = "" if row["low"] is None else f" [{row['low']:+.3f}, {row['high']:+.3f}]"
    return f"{row['difference']:+.3f}{interval}{' †' if row['falls'] else ''}"
