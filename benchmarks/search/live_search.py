"""Compare search strategies by real measurements: `python -m benchmarks live_search [--out docs]`.

Our strategies and Kernel Tuner's search the same problems on this machine with the same measurer, which checks every
result; so all pay the same for building, checking and timing. The problems are drawn at random from networks that
no data hold (`drawn_problems`), for the devices of `--backends` in turn. The answers after a quarter, half and all of
the trials, and after equal seconds, are judged by one contest of all strategies.

The whole comparison takes about 35 minutes, most of them for PoCL's compiler. `--work FOLDER` stores finished searches
and compiled kernels; with `--minutes`, a call stops after that time, and the same call again continues. The table shows
the problems that are finished.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.peer_search import LIVE_STRATEGIES
from benchmarks.common.peers import PREFIX, check_installed
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import Row, machine, markdown
from benchmarks.common.stored_options import check_options
from benchmarks.search.comparison import Comparison
from benchmarks.search.drawn_problems import drawn
from benchmarks.search.live_scores import KINDS, TIMES, budgets, geometric, lead, leads_of, log_shares
from seqtune.cli.arguments import parts
from seqtune.errors import MisuseError
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.parse import parse_problem
from seqtune.kernels.task import Task
from seqtune.predictor.answering import seeds_for, slowness_for
from seqtune.predictor.checkpoint_folder import digests, find
from seqtune.predictor.model import answers_for
from seqtune.tuner.measuring.runner import Runner
from seqtune.tuner.measuring.timing import DEFAULTS
from seqtune.tuner.strategies.table import strategy_factory

OURS = ("portfolio", "random")  # the first one is compared with all others
BACKENDS = "llvm,llvm,opencl"  # an OpenCL problem takes several times as long as an llvm one


def methods_of(strategies: str, peers: str) -> list[str]:
    """The methods to compare. Raises MisuseError for an unknown one, UnavailableError without Kernel Tuner."""
    ours, theirs = parts(strategies), parts(peers)
    if not ours:
        raise MisuseError("--strategies is empty; name at least one")
    for name in ours:
        strategy_factory(name)
    if theirs:
        check_installed()
        from kernel_tuner.interface import strategy_map

        unknown = [name for name in theirs if name not in strategy_map]
        if unknown:
            raise MisuseError(f"Kernel Tuner has no strategy {unknown[0]!r:.40}")
        for name in theirs:
            _ = strategy_map[name].tune  # imports what the strategy needs, before its time counts
    return [*ours, *(PREFIX + name for name in theirs)]


def chosen_problems(texts: str, backends: Sequence[str], count: int, seed: int) -> list[tuple[Device, Problem]]:
    """The problems of the comparison: drawn ones, or those of a text on all devices. Raises MisuseError."""
    from seqtune.tuner.backends.discovery import find

    if not backends or set(backends) - {"llvm", "opencl"}:
        raise MisuseError(f"--backends {','.join(backends)!r:.40}: choose llvm, opencl or both")
    found = {backend: find(f"{backend}:0") for backend in dict.fromkeys(backends)}
    devices = [found[backend] for backend in backends]
    if texts:
        return [(device, parse_problem(text)) for text in texts.split(";") for device in found.values()]
    problems = drawn(devices, count, seed)
    if len(problems) < count:
        raise MisuseError(f"--problems {count}: there are only {len(problems)} such problems")
    return problems


def table(rows: Sequence[Row], trials: int) -> str:
    """Make the table: the geometric mean share of each method at each moment, and the significance of the lead."""
    if not rows:
        return "No problem is finished yet."
    methods = list(dict.fromkeys(row["method"] for row in rows))
    shares = [log_shares(rows, kind, index) for kind in KINDS for index in range(len(budgets(trials)))]
    lines = []
    for method in methods:
        cells = [method]
        for means in shares:
            mark = ""
            if method != methods[0]:
                _, low, high = lead(means[methods[0]], means[method])
                mark = " <" if low > 1 else " >" if high < 1 else ""
            cells.append(f"{geometric(means[method]):.3f}{mark}")
        elapsed = sorted(row["elapsed"] for row in rows if row["method"] == method)
        lines.append([*cells, f"{elapsed[len(elapsed) // 2]:.1f}"])
    return markdown(["strategy", *columns(trials), "seconds"], lines)


def leads(rows: Sequence[Row], trials: int) -> str:
    """Make the table of our first strategy's leads: ratios of geometric means with their intervals."""
    lines: dict[str, list[str]] = {}
    for row in leads_of(rows, trials):
        ratio = f"{row['ratio']:.3f}{interval(row['low'], row['high'])}"
        lines.setdefault(row["method"], [row["method"]]).append(ratio)
    return markdown([f"`{rows[0]['method']}` divided by", *columns(trials)], list(lines.values()))


def columns(trials: int) -> list[str]:
    """The headings of the moments at which searches are judged."""
    return [*(f"{count} trials" for count in budgets(trials)), *TIMES]


def interval(low: float | None, high: float | None) -> str:
    """The interval of a ratio in brackets; empty if it is unknown."""
    return "" if low is None or high is None or math.isinf(high) else f" [{low:.3f}, {high:.3f}]"


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows, trials = results["rows"], results["trials"]
    problems = len({(row["device"], row["problem"]) for row in rows})
    ours = rows[0]["method"] if rows else OURS[0]
    claims = []
    for index, count in enumerate(budgets(trials) if rows else ()):
        means = log_shares(rows, "trials", index)
        others = {method: values for method, values in means.items() if method.startswith(PREFIX)}
        if others:
            best = max(others, key=lambda name: geometric(others[name]))
            ratio, low, high = lead(means[ours], others[best])
            ratio_text = f"ratio {ratio:.3f}{interval(low, high)}"
            claims.append(f"after {count} trials {geometric(means[ours]):.3f} (Kernel Tuner's best, "
                          f"{best.removeprefix(PREFIX)}: {geometric(others[best]):.3f}; {ratio_text})")
    return Page(
        "live_search", "Live searches",
        f"`{ours}` reaches these shares of the best known speed: {'; '.join(claims)}." if claims else
        "No problem was searched by both sides.",
        "python -m benchmarks live_search --out docs",
        table(rows, trials) + (f"\n\n{leads(rows, trials)}" if claims else ""), measured_on(results),
        f"Problems: {problems}; seeds: {results['seeds']}. Each cell is the geometric mean of the share of the best "
        "known speed that the answer of a search has; the best known configuration is the fastest of all answers. "
        f"`<` marks a method that is significantly worse than `{ours}`, `>` one that is significantly better (95 % "
        "interval of a paired bootstrap over the problems, with the mean over the seeds of each). The second table has "
        "the ratios and these intervals. `full time` is the time in which the quickest search of a problem made all "
        "its trials; finals are included. `seconds` is the median time of a search without finals. `kt:` marks Kernel "
        "Tuner's strategies.",
        ("Every strategy uses seqtune's measurer, so a trial costs all of them the same. With Kernel Tuner's own "
         "runner searches would take longer or shorter.",
         "Our strategies answer with the winner of the finals, as `seqtune tune` does; Kernel Tuner's answer with "
         "their fastest trial.",
         "Kernel families that compete are joined to one space for Kernel Tuner, with a parameter that chooses the "
         "family.",
         "A kernel that another search has built is not compiled again; the seconds of the first build are charged.",
         "Reading the model is not part of a search's time: it is read once, before the first search. Its proposals "
         "and its estimates for the problem are part of it."))


def warm_up(task: Task) -> None:
    """Load the model of these kernels and start a worker: the first time, files are read from disk for seconds."""
    seeds_for(task)
    slowness_for(task)
    with Runner(task.device) as runner:
        list(runner.measure(task.problem, [task.default], DEFAULTS))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--problems", type=positive, default=10, help="number of problems")
    parser.add_argument("--seeds", "--repeats", type=positive, default=3, help="number of seeds")
    parser.add_argument("--trials", type=positive, default=100, help="number of trials of each search")
    parser.add_argument("--strategies", default=",".join(OURS),
                        help="our strategies, separated by commas; the first one is compared with the others")
    parser.add_argument("--peers", default=",".join(LIVE_STRATEGIES),
                        help="strategies of Kernel Tuner, separated by commas; may be empty")
    parser.add_argument("--backends", default=BACKENDS,
                        help="llvm or opencl for the first problem, the second one, ..., in turn")
    parser.add_argument("--draw", type=int, default=0, help="seed with which the problems are drawn")
    parser.add_argument("--texts", default="", help="these problems instead, separated by semicolons")
    parser.add_argument("--work", type=Path, help="folder that stores finished searches, so that a second call resumes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no search after this time")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    run(parser.parse_args(arguments))


def checkpoints(devices: Iterable[Device]) -> dict[str, dict[str, str]]:
    """The checksums of the files of the checkpoints that answer for devices, by name."""
    return {name: digests(find(name)) for name in sorted({answers_for(device.backend) for device in devices})}


def run(given: argparse.Namespace) -> None:
    """Compare the strategies and write the results."""
    check_ready(given.out)
    if math.isfinite(given.minutes) and given.work is None:
        raise MisuseError("--minutes needs --work FOLDER, which stores the finished searches")
    methods = methods_of(given.strategies, given.peers)
    problems = chosen_problems(given.texts, parts(given.backends), given.problems, given.draw)
    deadline = time.monotonic() + 60 * given.minutes
    with contextlib.ExitStack() as stack:
        folder = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        check_options(folder / "options.json", {"checkpoint": checkpoints(device for device, _ in problems)}, folder)
        comparison = Comparison(problems, methods, given.seeds, given.trials, folder)
        if comparison.left():
            tasks = [Task.of(problem, device) for device, problem in problems]
            for task in {(task.device.name, *task.kernels): task for task in tasks}.values():
                warm_up(task)
        comparison.run(deadline)
        rows, left = comparison.rows(), comparison.left()
    results = {"machine": machine(list(dict.fromkeys(device for device, _ in problems))), "trials": given.trials,
               "seeds": given.seeds, "leads": leads_of(rows, given.trials), "rows": rows}
    print(json.dumps(results, allow_nan=False) if given.json else table(rows, given.trials))
    if left:
        print(f"{left} searches and contests are left; run the same command again", file=sys.stderr)
    else:
        publish(given.out, page, results)
