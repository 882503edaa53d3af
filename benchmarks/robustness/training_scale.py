"""Train on data sets of 1, 5 and 20 million records: `python -m benchmarks.training_scale [--json] [--out docs]`.

The records are synthetic (`synthetic_records.py`). A process of its own trains on each file (`short_fit.py`). With
`--folder`, the files are kept and used again.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.common.page import Page, Results, check_ready, measured_on, publish
from benchmarks.common.program import parser_of, positive, run_program
from benchmarks.common.report import markdown, processor
from benchmarks.robustness.synthetic_records import write_records
from seqtune.errors import MisuseError, SeqtuneError

RECORDS = (1_000_001, 5_000_000, 20_000_000)  # a million and fewer are read whole
EACH = 1_000  # configurations of a case at most
LEAST_CASES = 4_000  # shorter files have fewer configurations of each
BYTES = 16  # of a file for each record, at most; 10 are usual


def main() -> None:
    """Run the command line."""
    parser = parser_of(__doc__)
    parser.add_argument("--records", type=positive, nargs="+", default=list(RECORDS), help="numbers of records")
    parser.add_argument("--folder", type=Path, help="keep the files here  [default: a temporary folder]")
    given = parser.parse_args()
    check_ready(given.out)
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _check_room(folder, sum(given.records) * BYTES)
        rows = [_trained(folder / f"{records}.parquet", records) for records in given.records]
    results = {"machine": processor(), "rows": rows}
    publish(given.out, page, results)
    print(json.dumps(results) if given.json else page(results).tables)


def _check_room(folder: Path, size: int) -> None:
    """Raise MisuseError if `folder` is not a folder, or has no room for `size` bytes."""
    if not folder.is_dir():
        raise MisuseError(f"{folder} is not a folder")
    free = shutil.disk_usage(folder).free
    if free < size:
        raise MisuseError(f"the files need up to {size >> 20} MiB in {folder}, and {free >> 20} MiB are free")


def _trained(path: Path, records: int) -> dict[str, Any]:
    """The figures of a training on a file, which is written first if it is missing."""
    if not path.exists():
        print(f"training_scale: writing {records:,} records", file=sys.stderr)
        part = path.with_suffix(".part")
        write_records(part, records, min(EACH, max(1, records // LEAST_CASES)))
        part.rename(path)
    process = subprocess.run([sys.executable, "-m", "benchmarks.robustness.short_fit", str(path)], text=True,
                             stdout=subprocess.PIPE, check=False,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    if process.returncode:
        raise SeqtuneError(f"the training on {records:,} records ended with {process.returncode}")
    return {"records": records, "file_bytes": path.stat().st_size, **json.loads(process.stdout)}


def page(results: Results) -> Page:
    """The page of the results."""
    phases = ("reading", "tasks", "fit")
    rows = [[f"{row['records']:,}", f"{row['file_bytes'] / 1e6:.0f}", f"{row['cases']:,}", f"{row['measurements']:,}",
             f"{row['records'] / row['phases']['reading']['seconds']:,.0f}",
             *(f"{row['phases'][phase]['seconds']:.0f}" for phase in phases),
             *(f"{row['phases'][phase]['peak'] / 1024:.2f}" for phase in phases)] for row in results["rows"]]
    header = ["records", "file, MB", "cases", "configurations", "records/s", *(f"{phase}, s" for phase in phases),
              *(f"{phase}, peak GiB" for phase in phases)]
    peaks = [max(row["phases"][phase]["peak"] for phase in phases) / 1024 for row in results["rows"]]
    last = results["rows"][-1]
    return Page(
        "training_scale", "Long data sets",
        f"A training on {last['records']:,} records takes {peaks[-1]:.1f} GiB at its peak, one on "
        f"{results['rows'][0]['records']:,} takes {peaks[0]:.1f} GiB.",
        "python -m benchmarks.training_scale --out docs", markdown(header, rows, left=0), measured_on(results),
        "Reading is both passes over the file, and records/s are its records over that time. Tasks are the search "
        "spaces of the kept problems with their times. A case is a problem on a device; cases and configurations are "
        "what is kept of the file and learned from. Peaks are those of the process's resident memory in each phase "
        "(`VmHWM`), with all libraries.",
        ("The records are synthetic: drawn problems, configurations of our search spaces, times from a formula.",
         "The fit is cut short: 10 rounds of trees instead of 400, one epoch, no sampled problems, no confidence "
         "model. What is left out takes time, but no memory that depends on the file.",
         "Memory is bounded because a sample is learned from: at most 4,000 cases and 500,000 configurations. What a "
         "larger sample would gain is not measured."))


if __name__ == "__main__":
    run_program("training_scale", main)
