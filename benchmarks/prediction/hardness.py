"""Measure how hard the search spaces are: `python -m benchmarks hardness --out docs`.

For every held-out problem of the shipped data set, the program finds the number of valid and of measured
configurations, the fastest kernel family, the share of the best known speed that 1, 5 and 10 random configurations are
expected to reach, the share of the one configuration that is best for the device's training problems on average, and
the number of configurations within 5 % of the best. It writes the page and hardness.json (a row for each problem), and
prints a Markdown table.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.contest import geometric_mean
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row, markdown, today
from seqtune.data.formats.dataset_file import read_dataset

PICKS = (1, 5, 10)
NEAR = 0.95  # share of the best known speed


def measure_hardness(path: Path | None) -> list[Row]:
    """Make a row for each held-out problem and device of a data set."""
    import numpy as np

    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.times.evaluation import outcomes

    data = read_dataset(path)
    fixed_and_random = outcomes(data, None, ("random", "fixed"), (0, *PICKS),
                                progress=lambda step: print(step, file=sys.stderr))
    rows = []
    for measured, outcome in zip(measured_tasks(data, held_out=True), fixed_and_random, strict=True):
        shares = measured.shares()[measured.known]
        log_shares = outcome.log_shares
        fastest_family = measured.task[int(np.nanargmin(measured.seconds))].kernel
        rows.append({
            "device": outcome.device, "problem": measured.problem.brief(), "type": measured.problem.type,
            "configurations": len(measured.task), "measured": int(measured.known.sum()), "family": fastest_family,
            "near": float((shares >= NEAR).mean()), "median": float(np.median(shares)),
            **{f"random_{count}": math.exp(log_shares["random", count]) for count in PICKS},
            "fixed": math.exp(log_shares["fixed", 0])})
    return rows


def table(rows: Sequence[Row]) -> str:
    """Make the table: means over the problems, by device and type of problem."""
    lines = []
    for device, kind in sorted({(row["device"], row["type"]) for row in rows}):
        group = [row for row in rows if (row["device"], row["type"]) == (device, kind)]
        sizes = sorted(row["configurations"] for row in group)
        lines.append([
            device, kind, str(len(group)), f"{sizes[0]:,} – {sizes[len(sizes) // 2]:,} – {sizes[-1]:,}",
            f"{100 * sum(row['near'] for row in group) / len(group):.1f} %",
            *(f"{geometric_mean([row[name] for row in group]):.3f}"
              for name in (*(f"random_{count}" for count in PICKS), "fixed"))])
    return markdown(["device", "problems", "", "configurations", "within 5 %", "1 random", "5", "10", "fixed"], lines,
                    left=2)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    near = geometric_mean([row["random_1"] for row in rows])
    return Page(
        "hardness", "How hard the choice is",
        f"One random valid configuration reaches {near:.2f} of the best known speed (geometric mean over {len(rows)} "
        "held-out problems and devices), so a prediction has something to win.",
        "python -m benchmarks hardness --out docs", table(rows), evaluated(results, "the shipped data set"),
        "`configurations`: the least, median and largest number of valid configurations of a problem, over all kernel "
        "families that solve it. `within 5 %`: the share of configurations that are at most 5 % slower than the best "
        "known one. `1 random`, `5`, `10`: the expected share of the best known speed that the best of 1, 5 or 10 "
        "random configurations reaches. `fixed`: the share of the one configuration that is best for the device's "
        "training problems on average. Shares of the speed are geometric means over the held-out problems.",
        ("Small problems, such as a product with one row, leave fewer than 500 configurations that differ in what "
         "they do.",
         "Where a space was not measured completely, only its measured configurations are drawn."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser, required=True)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    rows = measure_hardness(given.data)
    publish(given.out, page, {"date": today(), "rows": rows})
    print(table(rows))
