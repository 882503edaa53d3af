"""Page of a GPU: first proposals beside libraries, the predictor among measured configurations, and checks.

The task `report` computes its figures from the folder of a run, and measures nothing. `page` makes the page of them.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from benchmarks.common.contest import geometric_mean
from benchmarks.common.page import Page, Results, measured_on, publish
from benchmarks.common.progress import say
from benchmarks.common.report import Row, interval, markdown, number, today
from seqtune.data.dataset import Dataset
from seqtune.data.journal.journal import Journal
from seqtune.data.measured_tasks import measured_tasks
from seqtune.data.provenance import DRY_RUN
from seqtune.data.record import Record
from seqtune.errors import UnavailableError
from seqtune.kernels.task import MeasuredTask, Task
from seqtune.predictor.answering import Answering
from seqtune.predictor.candidate import Candidate
from seqtune.predictor.learning.tasks.evaluation import replayed
from seqtune.predictor.learning.tasks.shares import OURS as PREDICTOR
from seqtune.predictor.learning.tasks.shares import rows as share_rows

from .comparison import OURS
from .measuring import RANDOM, group_of
from .peers import COMPILED
from .run import CHECKS, JOURNAL, Run, read_run

COMMAND = "python -m benchmarks gpu --out gpu"
COUNTS = (0, 3, 5)  # measured proposals of the evaluation
LEAST_MEASURED = 8  # configurations of a problem in the evaluation
Means = dict[str, tuple[float, int]]  # our contestant -> geometric mean over problems, and their number


def report(run: Run) -> str:
    """Write the data set and the page of a folder. Raises UnavailableError if nothing has been measured."""
    if not (run.folder / JOURNAL).exists():
        raise UnavailableError("nothing has been measured in this folder yet")
    data = data_of(run)
    if not len(data):
        raise UnavailableError("nothing has been measured in this folder yet")
    data.write(run.folder / "measured.parquet")
    results = results_of(run, data)
    publish(run.folder, page, results)
    return f"{len(data)} measurements of {results['problems']} problems; the page is {run.folder}/results/gpu.md"


def data_of(run: Run) -> Dataset:
    """The records of the run's journal, with their provenance and the held-out problems."""
    provenance = {"made_by": COMMAND.partition(" --")[0], "machine": run.device.model, "date": today(),
                  "operating_system": platform.system(), **({"dry_run": DRY_RUN} if run.gpu.simulated else {})}
    with Journal(run.folder / JOURNAL) as journal:
        return Dataset.from_journal(journal, provenance, read_run(run.folder).get("held_out", ()))


def results_of(run: Run, data: Dataset) -> dict[str, Any]:
    """The content of the JSON file."""
    stored, device = read_run(run.folder), run.device
    packages = [f"{name} {version}" for name, version in stored.get("packages", {}).items()]
    with Journal(run.folder / CHECKS) as journal:
        checks, worst = counts_of(journal.records(device=device.key))
    return {
        **({"dry_run": DRY_RUN} if run.gpu.simulated else {}),
        "machine": {"cpu": f"{device.model} ({device.architecture})",
                    "toolchain": ", ".join([device.toolchain, *packages]), "date": stored.get("date", today())},
        "peers": stored.get("compared", []),
        "checks": checks, "worst_errors": worst, "records": counts_of(data.records())[0],
        "problems": len(data.problems()), "evaluated": evaluated_rows(run, data), "notes": stored.get("notes", [])}


def counts_of(records: Iterable[Record]) -> tuple[list[Row], dict[str, float]]:
    """The records by family, element type and status, and the largest error of each family and type."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    worst: dict[str, float] = {}
    for entry in records:
        key = entry.configuration.kernel, str(entry.problem["dtype"])
        counts.setdefault(key, Counter())[entry.measurement.status.value] += 1
        if (error := entry.measurement.error) is not None:
            worst[" ".join(key)] = max(worst.get(" ".join(key), 0.0), error)
    rows = [{"kernel": kernel, "dtype": dtype, **statuses} for (kernel, dtype), statuses in sorted(counts.items())]
    return rows, worst


@dataclass(frozen=True)
class Asked:
    """The predictor of a name, or (None) the one that answers for each task by default."""

    checkpoint: str | None

    def propose(self, tasks: Sequence[Task], count: int) -> list[list[Candidate]]:
        """The proposals for each task, best first."""
        return [[*Answering.of(task, self.checkpoint).propose(count).values()] for task in tasks]


def evaluated_rows(run: Run, data: Dataset) -> list[Row]:
    """The run's predictor among the measured configurations, without any measurement and with a few, beside chance.

    Only what `measure` has measured counts: a tuning follows the predictor's proposals, so it cannot evaluate it.
    """
    measured = replace(data, rows=data.rows[data.rows["run"] == RANDOM].reset_index(drop=True))
    groups: dict[str, list[MeasuredTask]] = {}
    for held_out in (False, True):
        for task in measured_tasks(measured, held_out):
            if int(task.known.sum()) >= LEAST_MEASURED and task.device.key == run.device.key:
                groups.setdefault(group_of(task.problem), []).append(task)
    table: list[Row] = []
    for group, tasks in sorted(groups.items()):
        say(f"  evaluating {len(tasks)} problems of {group}")
        name = str(Answering.of(tasks[0].task, run.options.checkpoint).name)
        for row in share_rows(replayed(tasks, {PREDICTOR: Asked(run.options.checkpoint)}, [PREDICTOR, "random"],
                                       COUNTS)):
            table.append({"group": group, "method": name_of(name) if row.method == PREDICTOR else row.method,
                          "measured": row.measured, "share": row.share, "low": row.share_low, "high": row.share_high,
                          "problems": row.problems,
                          "configurations": median(int(task.known.sum()) for task in tasks)})
    return table


def name_of(predictor: str) -> str:
    """The name of a predictor on the page."""
    return "analytic model" if predictor == "analytic" else predictor


def seconds_by_problem(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """The seconds of every method, by group and problem."""
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        seconds.setdefault((row["group"], row["problem"]), {})[row["method"]] = row["seconds"]
    return seconds


def fastest_peer(seconds: Mapping[str, float]) -> float | None:
    """The least seconds of a contestant that is not ours; None if there is none."""
    return min((value for method, value in seconds.items() if method not in OURS), default=None)


def means(rows: Sequence[Row]) -> dict[str, Means]:
    """The geometric mean of the fastest peer's time divided by ours, by group and contestant of ours; without groups
    that have none.
    """
    ratios: dict[str, dict[str, list[float]]] = {}
    for (group, _), seconds in seconds_by_problem(rows).items():
        peer = fastest_peer(seconds)
        for method in OURS:
            if method in seconds and peer is not None:
                ratios.setdefault(group, {}).setdefault(method, []).append(peer / seconds[method])
    return {group: {method: (geometric_mean(methods[method]), len(methods[method])) for method in OURS
                    if method in methods} for group, methods in ratios.items()}


def with_compiler(rows: Sequence[Row]) -> frozenset[str]:
    """The keys of the problems in whose comparisons torch.compile was asked to take part."""
    return frozenset(row["problem"] for row in rows if row.get("compiled", row["method"] == COMPILED))


def mean_table(rows: Sequence[Row]) -> str:
    """The table of the means; below a group in which torch.compile took part only sometimes, both parts."""
    compiled = with_compiler(rows)
    parts = {"with torch.compile": means([row for row in rows if row["problem"] in compiled]),
             "with libraries only": means([row for row in rows if row["problem"] not in compiled])}
    lines = []
    for group, methods in means(rows).items():
        lines.append(_mean_line(group, methods))
        for label, part in parts.items():
            own = part.get(group)
            if own is not None and _problems_of(own) < _problems_of(methods):
                lines.append(_mean_line(f"{group}, {label}", own))
    return markdown(["fastest peer / ours (problems)", *OURS], lines)


def _mean_line(label: str, methods: Means) -> list[str]:
    return [f"{label} ({_problems_of(methods)})",
            *(number(methods[method][0] if method in methods else None) for method in OURS)]


def _problems_of(methods: Means) -> int:
    """The number of problems behind a line of the means' table."""
    return max(count for _, count in methods.values())


def time_tables(rows: Sequence[Row]) -> str:
    """The tables of the comparisons: microseconds of every method; one table for each operation."""
    compared, tables = seconds_by_problem(rows), []
    for operation in dict.fromkeys(group.partition(" ")[0] for group, _ in compared):
        chosen = {key: seconds for key, seconds in compared.items() if key[0].partition(" ")[0] == operation}
        methods = dict.fromkeys(method for seconds in chosen.values() for method in seconds)
        ordered = [*(method for method in methods if method not in OURS), *(name for name in OURS if name in methods)]
        lines = [[problem, *(f"{1e6 * seconds[method]:.1f}" if method in seconds else "–" for method in ordered),
                  number(_first_ratio(seconds))]
                 for (_, problem), seconds in chosen.items()]
        tables.append(markdown(["microseconds", *ordered, "fastest peer / first proposal"], lines))
    return "\n\n".join(tables)


def _first_ratio(seconds: Mapping[str, float]) -> float | None:
    """The fastest peer's time divided by the first proposal's, where both took part."""
    peer = fastest_peer(seconds)
    return None if peer is None or "first proposal" not in seconds else peer / seconds["first proposal"]


def evaluated_table(rows: Sequence[Row]) -> str:
    """The table of the predictor's shares."""
    counts = list(dict.fromkeys(row["measured"] for row in rows))
    cells = {(row["group"], row["method"], row["measured"]): row for row in rows}
    lines = []
    for group, method in dict.fromkeys((row["group"], row["method"]) for row in rows):
        first = cells[group, method, counts[0]]
        lines.append([f"{group} ({first['problems']}, {first['configurations']:g})", method, *(
            f"{cell['share']:.3f} {interval(cell['low'], cell['high'])}"
            for cell in (cells[group, method, count] for count in counts))])
    return markdown(["group (problems, configurations)", "method", *map(str, counts)], lines, left=2)


def check_table(results: Results) -> str:
    """The table of the checks: configurations against float64, and all records, by family."""
    checks, records = ({(row["kernel"], row["dtype"]): row for row in results[key]}
                          for key in ("checks", "records"))
    lines = []
    for kernel, dtype in sorted({*checks, *records}):
        error = results["worst_errors"].get(f"{kernel} {dtype}")
        lines.append([kernel, dtype, right_of(checks.get((kernel, dtype))), "–" if error is None else f"{error:.1e}",
                      right_of(records.get((kernel, dtype)))])
    return markdown(["family", "type", "samples right", "worst error", "records right"], lines, left=2)


def counts_in(row: Row) -> dict[str, int]:
    """The counts of a row by status."""
    return {name: count for name, count in row.items() if name not in ("kernel", "dtype")}


def right_of(row: Row | None) -> str:
    """How many of a row's configurations were right, as in "30 of 30"."""
    return "–" if row is None else f"{row.get('correct', 0)} of {sum(counts_in(row).values())}"


def page(results: Results) -> Page:
    """Make the page of the results."""
    peers, evaluated = results["peers"], results["evaluated"]
    first = {group: methods["first proposal"] for group, methods in means(peers).items()
             if "first proposal" in methods}
    ratios = ", ".join(f"{mean:.2f} for {group} ({count} problems)" for group, (mean, count) in first.items())
    records = sum(sum(counts_in(row).values()) for row in results["records"])
    wrong = records - sum(row.get("correct", 0) for row in results["records"])
    checked = sum(sum(counts_in(row).values()) for row in results["checks"])
    passed = sum(row.get("correct", 0) for row in results["checks"])
    compared = {row["problem"] for row in peers}
    parts = {"": [mean_table(peers)] if first else [], "Times": [time_tables(peers)] if peers else [],
             "The predictor": [evaluated_table(evaluated)] if evaluated else [], "Checks": [check_table(results)]}
    tables = "\n\n".join("\n\n".join([*([f"## {title}"] if title else []), *part])
                         for title, part in parts.items() if part)
    dry_run = f"This is a {results['dry_run']}. " if "dry_run" in results else ""
    return Page(
        "gpu", "First proposals on a GPU",
        f"{dry_run}The speed of the first proposal, divided by that of the fastest peer (geometric means over "
        f"problems): {ratios or 'no peer took part'}. Of {checked} sampled configurations {passed} computed right "
        f"numbers; of {records} records on {results['problems']} problems {wrong} have a wrong result.",
        COMMAND, tables, measured_on(results),
        "Peers and ours took turns in one process, each with an overwritten second-level cache; the least of 16 "
        "samples counts. `default` is the safe default, `first proposal` the predictor's first answer, `best of "
        "5` the fastest of its five first answers, `random of 5` that of five random configurations, `tuned` the best "
        "of 64 trials.",
        ("Few problems, one card, one run; a tenth more or less means little where a call takes ten microseconds.",
         "The peers are PyTorch's operations (cuBLAS, cuDNN with its benchmark mode on and TF32 off, in both layouts), "
         f"torch.compile in its mode max-autotune on {len(with_compiler(peers) & compared)} of {len(compared)} "
         "problems, and on products the first answer of nvidia-matmul-heuristics, run by our Triton kernel. A dash is "
         "a peer that did not take part. Means with and without torch.compile stand in lines of their own where a "
         "group has both.",
         "The predictor chooses among the measured configurations of a problem: the safe default, its own five "
         "first proposals and configurations of other problems and of chance. 0 is its first choice without a "
         "measurement. In brackets are 95 % intervals, by drawing problems. The best of so few configurations is not "
         "the best of the space."))
