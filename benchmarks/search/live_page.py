"""Page of live searches: the shares of the best known speed, their means, and which leads are significant.

A share is the time of the best contestant of the problem, divided by the time of the search's answer. The mean of a
method is geometric, over problems and seeds. Two methods are compared by the differences of their log shares, means
over the seeds of each problem, with an interval from a bootstrap over the problems (Efron, 1979): only these are
independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks.common.page import Page, Results, measured_on
from benchmarks.common.report import Row, markdown
from benchmarks.search.answers import AnswerContest
from benchmarks.search.comparison import Search
from benchmarks.search.peers import PREFIX
from benchmarks.search.trials import SearchRun
from seqtune.kernels.devices.device import Device
from seqtune.kernels.problem import Problem
from seqtune.predictor.learning.tasks.shares import interval

LEAST_SHARE = 0.01  # the share of a search without a correct configuration; its logarithm must be finite
RESAMPLES = 10_000
FEWEST = 5  # problems of an interval; with fewer, a bootstrap sees hardly any different samples
KINDS = ("trials", "seconds")
TIMES = {0.25: "quarter time", 0.5: "half time", 1.0: "full time"}


def moments(runs: Iterable[SearchRun], budgets: Sequence[int]) -> dict[str, tuple[float, ...]]:
    """The numbers of trials, and the same shares of the seconds that the quickest complete run of a problem took."""
    elapsed = min((run.elapsed for run in runs if len(run.trials) >= budgets[-1]), default=0.0)
    return {"trials": tuple(budgets), "seconds": tuple(elapsed * budget / budgets[-1] for budget in budgets)}


def time_names(budgets: Sequence[int]) -> list[str]:
    """The names of the moments in seconds."""
    return [TIMES.get(share := budget / budgets[-1], f"{share:.0%} of the time") for budget in budgets]


def rows_of(device: Device, problem: Problem, runs: Mapping[Search, SearchRun], contest: AnswerContest,
            budgets: Sequence[int]) -> list[Row]:
    """A row for each search of one problem: the shares of its answers."""
    best, at = min(contest.seconds.values()), moments(runs.values(), budgets)
    rows = []
    for run, searched in runs.items():
        shares = {kind: [0.0 if number is None else best / contest.seconds[number] for number in numbers]
                  for kind, numbers in contest.answers[run].items()}
        rows.append({
            "device": device.name, "problem": problem.key, "method": run.method, "seed": run.seed,
            "trials": len(searched.trials), "elapsed": searched.elapsed,
            "failed": sum(math.isinf(trial.seconds) for trial in searched.trials),
            "moments": list(at["seconds"]), "share_by_trials": shares["trials"],
            "share_by_seconds": shares["seconds"]})
    return rows


def log_shares(rows: Sequence[Row], kind: str, index: int) -> dict[str, dict[tuple[str, str], float]]:
    """The mean log share over the seeds: method -> (device, problem) -> mean."""
    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    for row in rows:
        problem = row["device"], row["problem"]
        share = max(LEAST_SHARE, row[f"share_by_{kind}"][index])
        values.setdefault(row["method"], {}).setdefault(problem, []).append(math.log(share))
    return {method: {problem: sum(logs) / len(logs) for problem, logs in by_problem.items()}
            for method, by_problem in values.items()}


def leads_of(rows: Sequence[Row], budgets: Sequence[int]) -> list[Row]:
    """The lead of the first method over each other one at each moment, with its interval; null if that is unknown."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    leads: list[Row] = []
    for kind in KINDS:
        for index, count in enumerate(budgets):
            means = log_shares(rows, kind, index)
            for method in methods[1:]:
                ratio, low, high = lead(means[methods[0]], means[method])
                known = math.isfinite(high)
                leads.append({"kind": kind, "trials": count if kind == "trials" else None,
                              "time": None if kind == "trials" else time_names(budgets)[index], "method": method,
                              "share": geometric(means[methods[0]]), "share_other": geometric(means[method]),
                              "ratio": ratio, "low": low if known else None, "high": high if known else None})
    return leads


def geometric(means: Mapping[tuple[str, str], float]) -> float:
    """The geometric mean over the problems."""
    return math.exp(sum(means.values()) / len(means))


def lead(ours: Mapping[tuple[str, str], float], theirs: Mapping[tuple[str, str], float]) -> tuple[float, float, float]:
    """The ratio of geometric means on the common problems, and its bootstrap interval; 0 and infinity if unknown."""
    differences = np.array([ours[problem] - theirs[problem] for problem in ours if problem in theirs])
    ends = interval(differences, RESAMPLES, 0) if len(differences) >= FEWEST else (0.0, math.inf)
    return math.exp(differences.mean()), *ends


def table(rows: Sequence[Row], budgets: Sequence[int]) -> str:
    """Make the table: the geometric mean share of each method at each moment, and the significance of the lead."""
    if not rows:
        return "No problem is finished yet."
    methods = list(dict.fromkeys(row["method"] for row in rows))
    shares = [log_shares(rows, kind, index) for kind in KINDS for index in range(len(budgets))]
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
    return markdown(["strategy", *columns(budgets), "seconds"], lines)


def leads(rows: Sequence[Row], budgets: Sequence[int]) -> str:
    """Make the table of our first strategy's leads: ratios of geometric means with their intervals."""
    lines: dict[str, list[str]] = {}
    for row in leads_of(rows, budgets):
        lines.setdefault(row["method"], [row["method"]]).append(ratio_text(row["ratio"], row["low"], row["high"]))
    return markdown([f"`{rows[0]['method']}` divided by", *columns(budgets)], list(lines.values()))


def columns(budgets: Sequence[int]) -> list[str]:
    """The headings of the moments at which searches are compared."""
    return [*(f"{count} trials" for count in budgets), *time_names(budgets)]


def ratio_text(ratio: float, low: float | None, high: float | None) -> str:
    """A ratio with its interval in brackets, if the interval is known."""
    known = low is not None and high is not None and math.isfinite(high)
    return f"{ratio:.3f} [{low:.3f}, {high:.3f}]" if known else f"{ratio:.3f}"


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows, budgets = results["rows"], results["budgets"]
    problems = len({(row["device"], row["problem"]) for row in rows})
    ours = rows[0]["method"] if rows else "portfolio"
    claims = []
    for index, count in enumerate(budgets if rows else ()):
        means = log_shares(rows, "trials", index)
        others = {method: values for method, values in means.items() if method.startswith(PREFIX)}
        if others:
            best = max(others, key=lambda name: geometric(others[name]))
            claims.append(f"after {count} trials {geometric(means[ours]):.3f} (Kernel Tuner's best, "
                          f"{best.removeprefix(PREFIX)}: {geometric(others[best]):.3f}; "
                          f"ratio {ratio_text(*lead(means[ours], others[best]))})")
    return Page(
        "live_search", "Live searches",
        f"`{ours}` reaches these shares of the best known speed: {'; '.join(claims)}." if claims else
        "No problem was searched by both sides.",
        "python -m benchmarks search --on live --out docs",
        table(rows, budgets) + (f"\n\n{leads(rows, budgets)}" if claims else ""), measured_on(results),
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
