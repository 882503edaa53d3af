"""Few kernels for all shapes, on data that were not made for it: `python -m benchmarks dispatch --miopen FOLDER`.

FOLDER holds MIOpen's find-dbs. The part `sets` compares the sets of members with the best ones, at 1 to 10 members. The
part `rules` judges rules for six members on a quarter of the problems that they did not see, beside other people's
ways, on three splits of the problems. The part `validity`, which needs no FOLDER, counts invalid answers over a
million random shapes and corners of domains.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.program import OneLineParser, several
from benchmarks.common.report import markdown

from .find_dbs import RULES, SETS, solver_times
from .rules import RuleRow, rule_rows
from .sets import set_rows
from .validity import TARGETS, ValidityRow, validity_row

SPLITS = 3
PARTS = ("sets", "rules", "validity")


def set_part(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of each find-db's sets."""
    for part in SETS:
        rows = set_rows(solver_times(folder, part))
        yield f"Sets: {part}", markdown(["kernels", "chosen", "swapped", "best", "within 0.002"], [
            [str(row.members), *(f"{share:.4f}" for share in (row.chosen, row.swapped, row.best)),
             "yes" if row.holds else "no"] for row in rows]), list(map(asdict, rows))


def rule_part(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of each find-db's rules: means over the splits."""
    for part in RULES:
        times = solver_times(folder, part)
        splits = [rule_rows(times, seed) for seed in range(SPLITS)]
        names = [field.name.replace("_", " ") for field in fields(RuleRow)]
        means = [[rows[0].method, *np.mean([astuple(row)[1:] for row in rows], axis=0)]
                 for rows in zip(*splits, strict=True)]
        yield f"Rules: {part}, {len(times.matrix.problems)} problems, {SPLITS} splits", markdown(names, [
            [str(method), *(f"{share:.4f}" for share in shares[:-1]), f"{shares[-1]:.0f}"]
            for method, *shares in means]), [[asdict(row) for row in rows] for rows in splits]


def validity_part(_: Path) -> Iterator[tuple[str, str, Any]]:
    """The title, the table and the JSON of the counts of invalid answers."""
    rows = list(map(validity_row, TARGETS))
    yield "Validity", markdown([field.name for field in fields(ValidityRow)],
                               [list(map(str, astuple(row))) for row in rows]), list(map(asdict, rows))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--miopen", type=Path, help="a folder with MIOpen's find-dbs")
    parser.add_argument("--parts", type=several(PARTS), default=PARTS, help="of sets, rules and validity, with commas")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")
    given = parser.parse_args(arguments)
    if given.miopen is None and set(given.parts) != {"validity"}:
        parser.error("the parts sets and rules need --miopen FOLDER")
    results: dict[str, Any] = {}
    for name, part in (("sets", set_part), ("rules", rule_part), ("validity", validity_part)):
        for title, table, content in part(given.miopen) if name in given.parts else ():
            results[title] = content
            if not given.json:
                print(f"{title}\n\n{table}\n", flush=True)
    if given.json:
        print(json.dumps(results))
