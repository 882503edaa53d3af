"""Page of GPU days, computed from the JSON file of `benchmarks gpu_results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.report import Row, markdown
from benchmarks.gpu.contests.ratios import OURS, Means, by_compiler, fastest_peer, means, with_compiler

JUDGED: Mapping[str, str] = {"seqtune": "analytic model", "random": "random"}  # method of an evaluation -> its name
COMMAND = "python -m benchmarks gpu_results gpu-day/home --out docs"


def number(value: float | None) -> str:
    """Two decimals, or a dash where there is no value."""
    return "–" if value is None else f"{value:.2f}"


def contests_of(rows: Sequence[Row]) -> dict[tuple[str, str], dict[str, float]]:
    """The seconds of every method, by group and problem."""
    contests: dict[tuple[str, str], dict[str, float]] = {}
    for row in rows:
        contests.setdefault((row["group"], row["problem"]), {})[row["method"]] = row["seconds"]
    return contests


def contest_tables(rows: Sequence[Row]) -> str:
    """The tables of the contests: microseconds of every method; one table for each operation."""
    contests, tables = contests_of(rows), []
    for operation in dict.fromkeys(group.partition(" ")[0] for group, _ in contests):
        chosen = {key: seconds for key, seconds in contests.items() if key[0].partition(" ")[0] == operation}
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


def ratios(rows: Sequence[Row]) -> dict[str, Means]:
    """The means of the ratios by group, without groups that have none."""
    found = {group: means([row for row in rows if row["group"] == group])
             for group in dict.fromkeys(row["group"] for row in rows)}
    return {group: methods for group, methods in found.items() if methods}


def ratio_table(rows: Sequence[Row]) -> str:
    """The table of the means; below a group in which torch.compile took part only sometimes, both parts."""
    parts = {label: ratios(part) for label, part in by_compiler(rows).items()}
    lines = []
    for group, methods in ratios(rows).items():
        lines.append(ratio_line(group, methods))
        for label, part in parts.items():
            own = part.get(group)
            if own is not None and problems_of(own) < problems_of(methods):
                lines.append(ratio_line(f"{group}, {label}", own))
    return markdown(["fastest peer / ours (problems)", *OURS], lines)


def ratio_line(label: str, methods: Means) -> list[str]:
    """A line of the means' table."""
    return [f"{label} ({problems_of(methods)})",
            *(number(methods[method][0] if method in methods else None) for method in OURS)]


def problems_of(methods: Means) -> int:
    """The number of problems behind a line of the means' table."""
    return max(count for _, count in methods.values())


def peers_said(rows: Sequence[Row]) -> str:
    """How many of the problems had torch.compile among their peers, as in "6 of 14"."""
    problems = {row["problem"] for row in rows}
    return f"{len(with_compiler(rows) & problems)} of {len(problems)}"


def speed(row: Row, backend: str) -> str:
    """The best TFLOP/s of a backend on a product, and the number of records behind it."""
    seconds = row["seconds"].get(backend)
    return "–" if seconds is None else f"{row['flop'] / seconds / 1e12:.0f} ({row['measured'][backend]})"


def product_table(rows: Sequence[Row]) -> str:
    """The table of the largest products."""
    lines = [[row["problem"], f"{row['flop'] / 1e9:.2g}", speed(row, "cuda"), speed(row, "triton")] for row in rows]
    return markdown(["best TFLOP/s (configurations)", "GFLOP", "our kernels", "Triton's kernel"], lines)


def judged_table(rows: Sequence[Row]) -> str:
    """The table of the analytic model's shares."""
    counts = list(dict.fromkeys(row["measured"] for row in rows))
    cells = {(row["group"], row["method"], row["measured"]): row for row in rows}
    lines = []
    for group, method in dict.fromkeys((row["group"], row["method"]) for row in rows):
        first = cells[group, method, counts[0]]
        lines.append([f"{group} ({first['problems']}, {first['configurations']:g})", method, *(
            f"{cell['share']:.3f} [{cell['low']:.3f}, {cell['high']:.3f}]"
            for cell in (cells[group, method, count] for count in counts))])
    return markdown(["group (problems, configurations)", "method", *map(str, counts)], lines, left=2)


def check_table(results: Results) -> str:
    """The table of the checks: configurations against float64, runs of the sanitizer and all records, by family."""
    names = dict.fromkeys((row["kernel"], row["dtype"]) for key in ("contracts", "records") for row in results[key])
    contracts, records = ({(row["kernel"], row["dtype"]): row for row in results[key]}
                          for key in ("contracts", "records"))
    tools: dict[str, list[int]] = {}
    for run in results["sanitizer"]:
        tools.setdefault(run["kernel"], []).append(run["findings"] or 0)
    lines = []
    for kernel, dtype in sorted(names):
        error = results["worst_errors"].get(f"{kernel} {dtype}")
        runs = tools.get(kernel)
        lines.append([kernel, dtype, right_of(contracts.get((kernel, dtype))), "–" if error is None else f"{error:.1e}",
                      "–" if runs is None else f"{sum(runs)} in {len(runs)}", right_of(records.get((kernel, dtype)))])
    return markdown(["family", "type", "samples right", "worst error", "findings in runs of the sanitizer",
                     "records right"], lines, left=2)


def counts_in(row: Row) -> dict[str, int]:
    """The counts of a row by status."""
    return {name: count for name, count in row.items() if name not in ("kernel", "dtype")}


def right_of(row: Row | None) -> str:
    """How many of a row's configurations were right, as in "30 of 30"."""
    return "–" if row is None else f"{row.get('correct', 0)} of {sum(counts_in(row).values())}"


def page(results: Results) -> Page:
    """Make the page of the results."""
    peers, judged = results["peers"], results["judged"]
    first = {group: methods["first proposal"] for group, methods in ratios(peers).items()
             if "first proposal" in methods}
    said = ", ".join(f"{mean:.2f} for {group} ({count} problems)" for group, (mean, count) in first.items())
    records = sum(sum(counts_in(row).values()) for row in results["records"])
    wrong = records - sum(row.get("correct", 0) for row in results["records"])
    checked = sum(sum(counts_in(row).values()) for row in results["contracts"])
    passed = sum(row.get("correct", 0) for row in results["contracts"])
    peak = results["tensor_gflops"]
    tables = (f"{ratio_table(peers)}\n\n{contest_tables(peers)}\n\n## Products beside Triton's\n\n"
              f"{product_table(results['products'])}\n\n## The analytic model\n\n{judged_table(judged)}\n\n"
              f"## Checks\n\n{check_table(results)}")
    return Page(
        "gpu_day", "A day with a GPU",
        "The speed of the first proposal, for which nothing had been measured on this GPU, divided by that of the "
        f"fastest peer (geometric means over problems): {said}. Of {checked} sampled configurations {passed} computed "
        f"right numbers; of {records} records on {results['problems']} problems {wrong} have a wrong result.",
        COMMAND, tables, measured_on(results),
        "Peers and ours took turns in one process, each with an overwritten second-level cache; the least of 16 "
        "samples counts. `default` is the safe default, `first proposal` the analytic model's first answer, `best of "
        "5` the fastest of its five first answers, `random of 5` that of five random configurations, `tuned` the best "
        "of 64 trials.",
        ("Few problems, one card, one run; a tenth more or less means little where a call takes ten microseconds.",
         "The peers are PyTorch's operations (cuBLAS, cuDNN with its benchmark mode on and TF32 off, in both layouts), "
         f"torch.compile in its mode max-autotune on {peers_said(peers)} problems, and on products the first answer of "
         "nvidia-matmul-heuristics, run by our Triton kernel. A dash is a peer that did not take part. Means with and "
         "without torch.compile stand in lines of their own where a group has both.",
         "The products' speeds are the best of as many configurations as stand in brackets, not of a search."
         + (f" The data sheet of the card says {peak / 1000:.0f} TFLOP/s without sparsity." if peak else ""),
         "The analytic model chooses among the measured configurations of a problem: the safe default, its own five "
         "first proposals and configurations of other problems and of chance. 0 is its first choice without a "
         "measurement. In brackets are 95 % intervals, by drawing problems. The best of so few configurations is not "
         "the best of the space."))
