"""Evaluate predictions for the layers of networks: `python -m benchmarks predicted_layers --out docs`.

The cases are the shipped times of problems of the networks that are held out whole, on every device that measured them
(`benchmarks.data.network_problems`). Every method of `seqtune evaluate` proposes; the page of the networks has a table
by kind of layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.common.page import add_out, check_ready, publish, published
from benchmarks.common.program import OneLineParser
from benchmarks.common.progress import say
from benchmarks.common.report import Row, today
from benchmarks.data.network_problems import ELEMENTS, held_out_networks, network_problems
from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.kinds import kind_of

from .page import ALL, PREDICTED, page, predicted


def evaluated_part(data: Dataset) -> Dataset:
    """The data set without other held-out problems, on the devices that measured those of held-out networks."""
    own = {problem.key for dtype in ELEMENTS for problem in network_problems(dtype).held_out}
    devices = data.rows.loc[data.rows["problem"].isin(own), "device"].unique()
    kept = data.rows["device"].isin(devices) & ~data.rows["problem"].isin(data.held_out - own)
    return replace(data, rows=data.rows[kept])


def measure(data: Dataset, checkpoint: str | Path) -> list[Row]:
    """Make a row for each kind, method and number of measured proposals."""
    from seqtune.predictor.checkpoint import Checkpoint
    from seqtune.predictor.learning.tasks.evaluation import outcomes
    from seqtune.predictor.learning.tasks.shares import rows
    from seqtune.predictor.translator.threads import one_thread

    with one_thread():
        cases = outcomes(evaluated_part(data), Checkpoint.load(checkpoint), progress=say)
    by_kind = [replace(case, device=_kind(data.known_problems[case.problem])) for case in cases]
    return [row.to_json() for row in rows([*sorted(by_kind, key=lambda case: case.device),
                                           *(replace(case, device=ALL) for case in cases)])]


def _kind(problem: Problem) -> str:
    dtype = problem["dtype"]
    return kind_of(problem) if dtype == "fp32" else f"{kind_of(problem)}, {dtype}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--checkpoint", default="default", help="name or folder of a checkpoint")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    rows = measure(read_dataset(given.data), given.checkpoint)
    part = {"date": today(), "networks": list(held_out_networks()), "rows": rows}
    publish(given.out, page, {**published(given.out, "networks"), PREDICTED: part})
    print(predicted(part))
