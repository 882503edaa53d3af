"""The headline, in seconds and without measuring: `python -m benchmarks headline --out docs`.

CASES held-out cases of the shipped data, each a problem on a device, are chosen by a checksum of their keys. The
checkpoint's first five proposals are evaluated by their recorded times, as `seqtune evaluate` does. The devices come
from the data set, so that every machine gets the same figures. A test computes them anew, compares each case with this
page's JSON file, and fails if they differ by more than the rounding of another CPU explains: run the program whenever
the checkpoint or the data change.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.common.evaluation import COUNTS
from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row, markdown, today
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.predictor.predictors import Predictor

CASES = 40
TOLERANCE = 0.003  # mean change of a case's share: a near tie that another CPU rounds the other way changes one by 0.02
TITLES = {0: "first proposal", 3: "best of 3 measured", 5: "best of 5 measured"}


def sample(data: Dataset, cases: int = CASES) -> Dataset:
    """The rows of `cases` held-out cases: of each device in turn, the one whose keys have the next checksum."""
    rows = data.rows[data.rows["problem"].isin(data.held_out)]
    pairs = rows[["device", "problem"]].astype(str)
    by_device: dict[str, list[tuple[int, str]]] = {}
    for device, problem in pairs.drop_duplicates().itertuples(index=False):
        by_device.setdefault(device, []).append((zlib.crc32(f"{device} {problem}".encode()), problem))
    turns = sorted((turn, device, problem) for device, own in by_device.items()
                   for turn, (_, problem) in enumerate(sorted(own)))
    chosen = {(device, problem) for _, device, problem in turns[:cases]}
    return replace(data, rows=rows[[pair in chosen for pair in pairs.itertuples(index=False, name=None)]])


def evaluated_cases(data: Dataset, predictor: Predictor) -> list[Row]:
    """Make a row for each held-out case of a data set: the share of the best recorded time, for each of COUNTS."""
    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.learning.tasks.evaluation import evaluate_tasks
    from seqtune.predictor.learning.tasks.shares import OURS
    from seqtune.predictor.translator.threads import one_thread

    with one_thread():
        return [{"device": outcome.device, "problem": outcome.problem,
                 "shares": [round(math.exp(outcome.log_shares[OURS, count]), 6) for count in COUNTS]}
                for outcome in evaluate_tasks(measured_tasks(data, held_out=True), predictor, COUNTS)]


def means(cases: Sequence[Row]) -> dict[int, float]:
    """The geometric mean share of some cases, for each of COUNTS."""
    return {count: math.exp(sum(math.log(case["shares"][column]) for case in cases) / len(cases))
            for column, count in enumerate(COUNTS)}


def changes(before: Sequence[Row], after: Sequence[Row]) -> dict[int, float]:
    """The mean absolute change of a case's share, for each of COUNTS; infinite if the cases are not the same."""
    earlier, later = ({(case["device"], case["problem"]): case["shares"] for case in cases}
                      for cases in (before, after))
    if earlier.keys() != later.keys():
        return dict.fromkeys(COUNTS, math.inf)
    return {count: sum(abs(later[key][column] - earlier[key][column]) for key in earlier) / len(earlier)
            for column, count in enumerate(COUNTS)}


def sentence(results: Results) -> str:
    """The headline: the means over all cases."""
    shares = means(results["cases"])
    return (f"On a fixed sample of {len(results['cases'])} held-out cases (a problem on a device), the shipped "
            f"checkpoint's first proposal reaches {shares[0]:.3f} of the best known speed, the best of 3 measured "
            f"proposals {shares[3]:.3f} and of 5 {shares[5]:.3f}.")


def table(cases: Sequence[Row]) -> str:
    """Make the table: a line for each device, and one for all."""
    lines = []
    for device in (*sorted({case["device"] for case in cases}), None):
        own = [case for case in cases if device in (None, case["device"])]
        lines.append([device or "all", str(len(own)), *(f"{share:.3f}" for share in means(own).values())])
    return markdown(["device", "cases", *TITLES.values()], lines)


def page(results: Results) -> Page:
    """Make the page of the results."""
    return Page(
        "headline", "The headline", sentence(results),
        "python -m benchmarks headline --out docs", table(results["cases"]),
        evaluated(results, "the shipped data set"),
        "Shares of the best known speed, as geometric means. The sample is chosen by a checksum of device and problem, "
        "evenly over the devices of the data. The tests compute it anew on every machine and compare each case with "
        "the JSON file of this page.",
        ("The sample is small, so that the test takes seconds. [Predictions](results.md) evaluates all held-out "
         "problems, with intervals.",))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    from seqtune.predictor.checkpoint import Checkpoint

    parser = OneLineParser(__doc__)
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = sample(read_dataset(None))
    cases = evaluated_cases(data, Checkpoint.load("default"))
    if not cases:
        raise MisuseError("the shipped data has no held-out problem that a kernel here solves")
    print(table(cases))
    publish(given.out, page, {"date": today(), "cases": cases})
