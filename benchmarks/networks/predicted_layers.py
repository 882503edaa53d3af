"""Judge predictions for the layers of networks: `python -m benchmarks predicted_layers --out docs`.

The cases are the shipped times of problems of the networks that are held out whole, on every device that measured them
(`benchmarks.data.network_problems`). Every method of `seqtune evaluate` proposes; the page has a table by kind.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row, markdown, today
from benchmarks.data.network_problems import ELEMENTS, held_out_networks, network_problems
from benchmarks.data.problem_kinds import kind_of
from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.kernels.problem import Problem

ALL = "all"  # the kind of the last line
COLUMNS = {("seqtune", 0): "seqtune, first", ("seqtune", 3): "best of 3", ("seqtune", 5): "best of 5",
           ("transformer", 0): "transformer", ("trees", 0): "trees", ("nearest", 0): "nearest", ("fixed", 0): "fixed",
           ("random", 0): "random", ("default", 0): "default"}


def judged(data: Dataset) -> Dataset:
    """The data set without other held-out problems, on the devices that measured those of held-out networks."""
    own = {problem.key for dtype in ELEMENTS for problem in network_problems(dtype).held_out}
    devices = data.rows.loc[data.rows["problem"].isin(own), "device"].unique()
    kept = data.rows["device"].isin(devices) & ~data.rows["problem"].isin(data.held_out - own)
    return replace(data, rows=data.rows[kept])


def measure(data: Dataset, checkpoint: str | Path) -> list[Row]:
    """Make a row for each kind, method and number of measured proposals."""
    from seqtune.predictor.model import load_model
    from seqtune.predictor.times.evaluation import outcomes
    from seqtune.predictor.times.shares import rows
    from seqtune.predictor.translator.threads import one_thread

    with one_thread():
        cases = outcomes(judged(data), load_model(checkpoint),
                         progress=lambda step: print(step, file=sys.stderr, flush=True))
    by_kind = [replace(case, device=_kind(data.known_problems[case.problem])) for case in cases]
    return [row.to_json() for row in rows([*sorted(by_kind, key=lambda case: case.device),
                                           *(replace(case, device=ALL) for case in cases)])]


def _kind(problem: Problem) -> str:
    dtype = problem["dtype"]
    return kind_of(problem) if dtype == "fp32" else f"{kind_of(problem)}, {dtype}"


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each kind."""
    lines = []
    for kind in dict.fromkeys(row["device"] for row in rows):
        cells = {(row["method"], row["measured"]): row for row in rows if row["device"] == kind}
        lines.append([kind, str(cells["seqtune", 0]["problems"]),
                      *(f"{cells[column]['share']:.3f}" for column in COLUMNS if column in cells)])
    present = {(row["method"], row["measured"]) for row in rows}
    return markdown(["kind", "cases", *(title for column, title in COLUMNS.items() if column in present)], lines)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    every = {(row["method"], row["measured"]): row for row in rows if row["device"] == ALL}
    first = every["seqtune", 0]
    return Page(
        "predicted_layers", "Layers of networks that no model learned from",
        f"On the layers of {len(results['networks'])} networks that are held out whole, the shipped checkpoint's first "
        f"proposal reaches {first['share']:.3f} [{first['share_low']:.3f}, {first['share_high']:.3f}] of the best "
        f"known speed and the best of five {every['seqtune', 5]['share']:.3f}, where the safe default reaches "
        f"{every['default', 0]['share']:.3f} (geometric means over {first['problems']} cases, a problem on a device).",
        "python -m benchmarks predicted_layers --out docs", table(rows),
        evaluated(results, "the shipped data set"),
        f"Held out are {', '.join(results['networks'])}: no model learns from their problems or from problems near to "
        "them. Shares of the best known speed of the first proposal without a measurement and of the best of 3 and 5 "
        "measured proposals; then the first proposals of the transformer and of the trees alone, of the most similar "
        "training problem, and of the configuration that is best on average; a random one, and the safe default.",
        ("Of each kind, some problems are measured. Their spaces are not measured completely: random configurations, "
         "proposals of a model and neighbours of the best. A method chooses among the measured ones.",
         "Layers are in the form of the PyTorch integration: NHWC, with bias and, where a network has an activation, a "
         "ReLU."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--checkpoint", default="default", help="name or folder of a checkpoint")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = read_dataset(given.data)
    rows = measure(data, given.checkpoint)
    publish(given.out, page, {"date": today(), "networks": list(held_out_networks()), "rows": rows})
    print(table(rows))
