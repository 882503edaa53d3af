"""Page of the networks, computed from the rows of the JSON file."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.report import Row, markdown

from .case import TOLERANCES
from .rows import FLOORS, MEAN, PEER_NAMES


def ratio(value: float | None) -> str:
    """Two decimals, or a dash where there is no value."""
    return "–" if value is None else f"{value:.2f}"


def table(rows: Sequence[Row]) -> str:
    """Make the tables: one for each precision and number of threads, a line for each network and the mean."""
    tables = []
    for dtype, threads in dict.fromkeys((row["dtype"], row["threads"]) for row in rows):
        group = [row for row in rows if (row["dtype"], row["threads"]) == (dtype, threads)]
        lines = [[row["model"], ratio(row.get("ms")), *(ratio(row[f"vs_{name}"]) for name in PEER_NAMES),
                  ratio(row["vs_best"]), _count(row.get("pytorch_operations_left")), _small(row.get("error")),
                  ratio(row.get("seconds_to_ready"))] for row in group]
        header = ["network", "ms", *PEER_NAMES, "best peer", "PyTorch's operations", "error", "seconds to ready"]
        tables.append(f"**{dtype}, {threads} thread{'s' if threads > 1 else ''}**\n\n" + markdown(header, lines))
    return "\n\n".join(tables)


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)


def _small(value: float | None) -> str:
    return "–" if value is None else f"{value:.0e}"


def absent(rows: Sequence[Row]) -> list[str]:
    """A sentence for each contestant that was left out, and its reasons."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for name, reason in row.get("left_out", {}).items():
            reasons.setdefault((name, reason), []).append(f"{row['model']} ({row['dtype']}, {row['threads']})")
    return [f"{name} is left out of {', '.join(dict.fromkeys(networks))}: {reason.rstrip('.')}."
            for (name, reason), networks in reasons.items()]


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    claims = [f"{row['dtype']} with {row['threads']} thread{'s' if row['threads'] > 1 else ''}: "
              f"{ratio(row['vs_best'])} times the speed of the best peer of each network (geometric mean of "
              f"{row['networks']}; least {ratio(row['least'])}"
              + (f"; below {FLOORS[row['dtype']]}: {', '.join(row['below'])}" if row["below"] else "") + ")"
              for row in rows if row["model"] == MEAN]
    return Page(
        "networks", "Networks and their peers", "; ".join(claims) + "." if claims else "No network was measured.",
        "python -m benchmarks networks --out docs", table(rows), measured_on(results),
        "`ms` is our time of one call. The columns named after a peer are its time divided by ours. `eager` is "
        "unchanged PyTorch, `compile` torch.compile, `max_autotune` the same with constant weights and a search among "
        "kernels. `PyTorch's operations` counts those that one call of ours makes and that compute something. `error` "
        "is the largest difference from PyTorch's results in fp32, divided by the largest result.",
        ("Batch 1 and random weights; texts of 128 tokens, images of 224 by 224, sound of 30 seconds. `GPT-2-decode` "
         "computes one token with a cache of 128.",
         "All contestants of a network run in one process and take turns in random order; a row shows medians over "
         "rounds that are brought to one level.",
         "Results must agree within " + " and ".join(f"{allowed:.0e} ({dtype})" for dtype, allowed in
                                                     TOLERANCES.items()) + "; a contestant outside is not timed.",
         "`seconds to ready` lasts from a model in memory to the second answer; the peers' are in the JSON file.",
         *absent(rows)))
