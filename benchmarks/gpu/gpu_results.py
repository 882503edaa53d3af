"""Make the page of GPU days from what they brought home: `python -m benchmarks gpu_results HOME... --out docs`.

HOME is a folder `home` of `python -m benchmarks gpu_day`. Of several, the first one that has a slice's result gives it,
and the measurements are merged (`--data FILE` writes them as one file, which may be shipped). Nothing is measured; the
analytic model is judged on the measured configurations.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.common.page import add_out, check_ready, publish
from benchmarks.common.program import OneLineParser
from benchmarks.common.report import Row, today
from benchmarks.gpu.contests.ratios import with_compiler
from benchmarks.gpu.day import read_object
from benchmarks.gpu.results_page import JUDGED, page
from seqtune.errors import FormatError, MisuseError

if TYPE_CHECKING:
    from seqtune.data.dataset import Dataset
    from seqtune.kernels.problem import Problem

RESULTS = "results.json"
LARGEST_RESULTS = 16_000_000  # bytes
COUNTS = (0, 3, 5)  # measured proposals of the judgement
LEAST_MEASURED = 8  # configurations of a problem in the judgement
LARGEST_PRODUCTS = 5  # that are listed beside those of Triton
SWEEP = "random"  # the mark of the data slices' records; tunings follow the model's proposals, so they cannot judge it


def slices_of(homes: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """The results of the slices by name, each from the first folder that has it. Raises FormatError, MisuseError."""
    merged: dict[str, dict[str, Any]] = {}
    for home in homes:
        content = read_object(home / RESULTS, LARGEST_RESULTS)
        if "dry_run" in content:
            raise MisuseError(f"{home} is of a dry run, not of measurements")
        results = content.get("results")
        if not isinstance(results, dict) or not all(isinstance(result, dict) for result in results.values()):
            raise FormatError(f"{home / RESULTS} has no results of slices")
        merged = {**results, **merged}
    return merged


def measurements_of(homes: Sequence[Path]) -> Dataset:
    """The measurements of the GPUs, merged. Raises MisuseError if there are none or if they are of a dry run."""
    from seqtune.data.dataset import Dataset
    from seqtune.data.provenance import check_measured

    parts = []
    for path in (path for home in homes for path in sorted(home.glob("*.parquet")) if path.stem != "host"):
        parts.append(Dataset.read(path))
        check_measured(parts[-1].provenance, path)
    if not parts:
        raise MisuseError("these folders hold no measurements of a GPU")
    return parts[0].merge(*parts[1:])


def type_of(problem: Problem) -> str:
    """The group of a problem on the page, as in "gemm bf16"."""
    return f"{problem.type} {problem['dtype']}"


def counts_of(data: Dataset) -> list[Row]:
    """The records by family, element type and status."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for entry in data.records():
        key = entry.configuration.kernel, str(entry.problem["dtype"])
        counts.setdefault(key, Counter())[entry.measurement.status.value] += 1
    return [{"kernel": kernel, "dtype": dtype, **statuses} for (kernel, dtype), statuses in sorted(counts.items())]


def products_of(data: Dataset) -> list[Row]:
    """The largest products, and all of Triton's kernel: the least seconds and the number of records of each backend."""
    best: dict[str, dict[str, float]] = {}
    records: dict[str, Counter[str]] = {}
    flop: dict[str, float] = {}
    for entry in data.records():
        if entry.problem.type == "gemm":
            backend = entry.device.partition(":")[0]
            times = best.setdefault(entry.problem.key, {})
            times[backend] = min(times.get(backend, float("inf")), entry.measurement.seconds)
            records.setdefault(entry.problem.key, Counter())[backend] += 1
            flop[entry.problem.key] = float(entry.problem.size("flop"))
    largest = sorted(flop, key=lambda key: -flop[key])[:LARGEST_PRODUCTS]
    both = [key for key in flop if "triton" in best[key]]
    return [{"problem": key, "flop": flop[key], "seconds": best[key], "measured": dict(records[key])}
            for key in sorted({*largest, *both}, key=lambda key: -flop[key])]


def judged_rows(data: Dataset, progress: Callable[[str], None]) -> list[Row]:
    """The analytic model among the measured configurations, without any measurement and with a few, beside chance."""
    from dataclasses import replace

    from seqtune.data.measured_tasks import measured_tasks
    from seqtune.predictor.answering import predictor_for
    from seqtune.predictor.model import answers_for
    from seqtune.predictor.times.evaluation import replayed
    from seqtune.predictor.times.shares import OURS, rows

    swept = replace(data, rows=data.rows[data.rows["run"] == SWEEP].reset_index(drop=True))
    groups: dict[str, list[Any]] = {}
    for held_out in (False, True):
        for task in measured_tasks(swept, held_out):
            if int(task.known.sum()) >= LEAST_MEASURED and task.device.backend == "cuda":
                groups.setdefault(type_of(task.problem), []).append(task)
    table: list[Row] = []
    for name, tasks in sorted(groups.items()):
        progress(f"judging {len(tasks)} problems of {name}")
        predictor = predictor_for(tasks[0].device, answers_for("cuda"))
        for row in rows(replayed(tasks, {OURS: predictor}, [OURS, "random"], COUNTS)):
            table.append({"group": name, "method": JUDGED.get(row.method, row.method), "measured": row.measured,
                          "share": row.share, "low": row.share_low, "high": row.share_high, "problems": row.problems,
                          "configurations": median(int(task.known.sum()) for task in tasks)})
    return table


def results_of(homes: Sequence[Path], data: Dataset, progress: Callable[[str], None]) -> dict[str, Any]:
    """The content of the JSON file. Raises FormatError, MisuseError."""
    slices = slices_of(homes)
    environment = slices.get("environment", {})
    devices = [device for device in data.devices.values() if device.backend == "cuda"]
    if not devices:
        raise MisuseError("these measurements are of no cuda device")
    packages = environment.get("packages", {})
    versions = [f"{name} {packages[name]}" for name in ("torch", "triton", "nvidia-cudnn-cu13") if packages.get(name)]
    groups = {problem.key: type_of(problem) for problem in data.problems()}
    contests = [row for name in ("peers-gemm", "peers-conv") for row in slices.get(name, {}).get("rows", [])]
    compiled = with_compiler(contests)
    columns = ("problem", "method", "seconds", "error")
    peers = [{**{column: row[column] for column in columns}, "group": groups[row["problem"]],
              "compiled": row["problem"] in compiled} for row in contests]
    contracts, sanitizer = slices.get("contracts", {}), slices.get("sanitizer", {})
    return {
        "machine": {"cpu": f"{devices[0].model} ({devices[0].architecture})",
                    "toolchain": ", ".join([devices[0].toolchain, *versions]),
                    "date": max((str(result["date"]) for result in slices.values() if "date" in result),
                                default=today())},
        "tensor_gflops": dict(devices[0].extra).get("tensor_gflops"), "peers": peers,
        "contracts": contracts.get("families", []), "worst_errors": contracts.get("worst_errors", {}),
        "sanitizer": [{name: run[name] for name in ("kernel", "tool", "launched", "findings")}
                      for run in sanitizer.get("runs", [])],
        "records": counts_of(data), "problems": len(groups), "products": products_of(data),
        "judged": judged_rows(data, progress)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("homes", nargs="+", type=Path, metavar="HOME", help="a folder `home` of a GPU day")
    parser.add_argument("--data", type=Path, metavar="FILE", help="write the measurements as one Parquet file")
    add_out(parser)
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data = measurements_of(given.homes)
    results = results_of(given.homes, data, lambda step: print(step, file=sys.stderr, flush=True))
    if given.data is not None:
        data.write(given.data)
    publish(given.out, page, results)
    print(page(results).tables)
