"""Ratios: the fastest peer's time divided by that of each of our contestants, over the problems of contests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.contest import geometric_mean
from benchmarks.common.report import Row
from benchmarks.gpu.contests.torch_peers import COMPILED

OURS = ("default", "first proposal", "best of 5", "random of 5", "tuned")
Means = dict[str, tuple[float, int]]  # our contestant -> geometric mean over problems, and their number


def fastest_peer(seconds: Mapping[str, float]) -> float | None:
    """The least seconds of a contestant that is not ours; None if there is none."""
    return min((value for method, value in seconds.items() if method not in OURS), default=None)


def seconds_by_problem(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """The seconds of every method, by problem."""
    contests: dict[str, dict[str, float]] = {}
    for row in rows:
        contests.setdefault(row["problem"], {})[row["method"]] = row["seconds"]
    return contests


def means(rows: Sequence[Row]) -> Means:
    """The geometric mean of the fastest peer's time divided by ours, and its problems, by contestant of ours."""
    ratios: dict[str, list[float]] = {}
    for seconds in seconds_by_problem(rows).values():
        peer = fastest_peer(seconds)
        for method in OURS:
            if method in seconds and peer is not None:
                ratios.setdefault(method, []).append(peer / seconds[method])
    return {method: (geometric_mean(ratios[method]), len(ratios[method])) for method in OURS if method in ratios}


def with_compiler(rows: Sequence[Row]) -> frozenset[str]:
    """The keys of the problems in whose contests torch.compile was asked to take part.

    Rows of older days do not say so: there its own row shows it.
    """
    return frozenset(row["problem"] for row in rows if row.get("compiled", row["method"] == COMPILED))


def by_compiler(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of the contests with torch.compile and of those without it, by label; without empty parts."""
    compiled = with_compiler(rows)
    parts = {"with torch.compile": [row for row in rows if row["problem"] in compiled],
             "with libraries only": [row for row in rows if row["problem"] not in compiled]}
    return {label: part for label, part in parts.items() if part}


def summary(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The number of problems and the means of both parts, by label."""
    return {label: {"problems": len(seconds_by_problem(part)),
                    "means": {method: mean for method, (mean, _) in means(part).items()}}
            for label, part in by_compiler(rows).items()}
