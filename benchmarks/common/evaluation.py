"""Evaluation: what the pages about predictions share (`predictor/learning/tasks/evaluation.py` evaluates the methods).

A row is a `shares.EvaluationRow` as JSON, with what the program adds: one method, one number of measured proposals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.common.report import Row, interval

if TYPE_CHECKING:
    from seqtune.predictor.learning.tasks.shares import Outcome

COUNTS = (0, 3, 5)  # measured proposals; 0 is the first proposal without a measurement
BEST_OF = ("first proposal", "best of 3", "best of 5")  # the columns of COUNTS
ALL = "all"  # the device, or group of problems, of the rows over all of them


def merged_devices(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """One outcome for each problem: the mean log shares of its devices, which a bootstrap then draws together."""
    import numpy as np

    by_problem: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_problem.setdefault(outcome.problem, []).append(outcome)
    merged = []
    for same in by_problem.values():
        retests = [outcome.retest for outcome in same if outcome.retest is not None]
        shares = {key: float(np.mean([outcome.log_shares[key] for outcome in same])) for key in same[0].log_shares}
        merged.append(replace(same[0], device=ALL, log_shares=shares,
                              unmeasured=sum(outcome.unmeasured for outcome in same),
                              retest=float(np.mean(retests)) if retests else None))
    return merged


def by_columns(rows: Sequence[Row], *columns: str) -> dict[tuple[str, ...], dict[int, Row]]:
    """The rows by their values in these columns, then by number of measured proposals."""
    grouped: dict[tuple[str, ...], dict[int, Row]] = {}
    for row in rows:
        grouped.setdefault(tuple(row[column] for column in columns), {})[row["measured"]] = row
    return grouped


def share_cell(row: Row) -> str:
    """A share with its 95 % interval; `†`: better than seqtune."""
    return f"{row['share']:.3f}{'†' if row['worse'] else ''} {interval(row['share_low'], row['share_high'])}"


def share_cells(by_count: Mapping[int, Row]) -> list[str]:
    """The cells of one method, for each of COUNTS."""
    return [share_cell(by_count[count]) for count in COUNTS]


def ceiling_cell(row: Row) -> str:
    """The share of an oracle whose choice is measured again."""
    return "-" if row["ceiling"] is None else f"{row['ceiling']:.3f}"
