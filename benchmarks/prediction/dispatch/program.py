"""Few kernels for all shapes, on data that were not made for it: `python -m benchmarks dispatch --miopen FOLDER`.

FOLDER holds MIOpen's find-dbs. The part `sets` compares the sets of members with the best ones, at 1 to 10 members, on
these and on the matrices of two products. The part `rules` judges rules for six members on a quarter of the problems
that they did not see, beside other people's ways, on three splits of the problems. The other parts need no FOLDER:
`validity` counts invalid answers over a million random shapes and corners of domains, and `budget` compares what a
dispatch makes of a part of a product's matrix with what it makes of all of it. Two things measure here, and go on where
they ended: `--measure PRODUCT` makes such a matrix, and the part `live`, which runs only if it is named, compares
kernels on fresh shapes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, astuple, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks.common.program import OneLineParser, several
from benchmarks.common.progress import say
from benchmarks.common.report import markdown
from seqtune.api.dispatching.known import Known, shares
from seqtune.kernels.problem_sets.columns import ProblemColumns

from .budget import BudgetRow, budget_row, recorded
from .find_dbs import RULES, SETS, solver_times
from .live import TARGETS as LIVE
from .live import LiveRow, live_rows
from .products import PRODUCTS, measure
from .rules import RuleRow, rule_rows
from .sets import SetRow, set_rows
from .validity import TARGETS, ValidityRow, validity_row

Row = TypeVar("Row", SetRow, RuleRow, ValidityRow, BudgetRow, LiveRow)
SPLITS = 3
PARTS = ("sets", "rules", "validity", "budget", "live")


def set_part(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of the sets of each find-db and of each product's matrix."""
    for part in SETS:
        times = solver_times(folder, part)
        rows = set_rows(times.matrix, times.columns)
        yield f"Sets: {part}", table(SetRow, rows), list(map(asdict, rows))
    for product in PRODUCTS.values():
        if product.path.is_file():
            tasks, candidates = recorded(product)
            matrix = Known(tasks[0].device, tasks, shares([1.0] * len(tasks))).matrix(candidates)
            rows = set_rows(matrix, ProblemColumns.of(matrix.problems),
                            [feature.name for feature in product.served().varying])
            yield f"Sets: {product.name}", table(SetRow, rows), list(map(asdict, rows))


def rule_part(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of each find-db's rules; the table has means over the splits."""
    for part in RULES:
        times = solver_times(folder, part)
        splits = [rule_rows(times, seed) for seed in range(SPLITS)]
        means = [RuleRow(rows[0].method, *np.mean([astuple(row)[1:] for row in rows], axis=0).tolist())
                 for rows in zip(*splits, strict=True)]
        yield (f"Rules: {part}, {len(times.matrix.problems)} problems, {SPLITS} splits", table(RuleRow, means),
               [[asdict(row) for row in rows] for rows in splits])


def validity_part(_: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of the counts of invalid answers."""
    rows = list(map(validity_row, TARGETS))
    yield "Validity", table(ValidityRow, rows), list(map(asdict, rows))


def budget_part(_: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of the products' matrices."""
    for product in PRODUCTS.values():
        if not product.path.is_file():
            say(f"{product.path.name} is not there: --measure {product.name} makes it")
    rows = [budget_row(product) for product in PRODUCTS.values() if product.path.is_file()]
    yield "Budget: eight kernels", table(BudgetRow, rows), list(map(asdict, rows))


def live_part(folder: Path, targets: Sequence[str], _: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of each target's comparison on fresh shapes."""
    folder.mkdir(exist_ok=True)
    for target in targets:
        rows = live_rows(target, folder)
        yield f"Live: {target}", table(LiveRow, rows), list(map(asdict, rows))


def table(kind: type[Row], rows: Sequence[Row]) -> str:
    """A Markdown table of rows of one kind."""
    return markdown([field.name.replace("_", " ") for field in fields(kind)], [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in astuple(row)] for row in rows])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--miopen", type=Path, help="a folder with MIOpen's find-dbs")
    parser.add_argument("--parts", type=several(PARTS), default=PARTS[:-1], help=f"of {', '.join(PARTS)}, with commas")
    parser.add_argument("--targets", type=several(tuple(LIVE)), default=[*LIVE], help=f"of {', '.join(LIVE)}")
    parser.add_argument("--measure", choices=PRODUCTS, help="measure the matrix of this product here, nothing else")
    parser.add_argument("--work", type=Path, default=Path("dispatch"), help="folder that keeps what is measured here")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = parser.parse_args(arguments)
    if given.measure:
        return measure(PRODUCTS[given.measure], given.work)
    if given.miopen is None and {*given.parts} & {"sets", "rules"}:
        parser.error("the parts sets and rules need --miopen FOLDER")
    results: dict[str, Any] = {}
    live = partial(live_part, given.work, given.targets)
    parts: tuple[Callable[[Path], Iterator[tuple[str, str, Any]]], ...] = (
        set_part, rule_part, validity_part, budget_part, live)
    for name, part in zip(PARTS, parts, strict=True):
        for title, table, content in part(given.miopen) if name in given.parts else ():
            results[title] = content
            if not given.json:
                print(f"{title}\n\n{table}\n", flush=True)
    if given.json:
        print(json.dumps(results))
    return None
