"""Live scores: the shares of the best known speed that searches reached, their means, and which leads are significant.

A share is the time of the best contestant of the problem, divided by the time of the search's answer. The mean of a
method is geometric, over problems and seeds. Two methods are compared by the differences of their log shares, means
over the seeds of each problem, with an interval from a bootstrap over the problems (Efron, 1979): only these are
independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from benchmarks.common.report import Row
from benchmarks.search.live_contest import AnswerContest
from benchmarks.search.live_runs import LiveRun
from benchmarks.search.search_run import SearchRun

LEAST_SHARE = 0.01  # of a search without a correct configuration; its logarithm must be finite
RESAMPLES = 10_000
LEVEL = 0.95  # of the interval
FEWEST = 5  # problems of an interval; with fewer, a bootstrap sees hardly any different samples
KINDS = ("trials", "seconds")
TIMES = ("quarter time", "half time", "full time")


def moments(runs: Iterable[SearchRun], trials: int) -> dict[str, tuple[float, ...]]:
    """A quarter, half and all of the trials, and of the seconds that the quickest complete run of a problem took."""
    elapsed = min((run.elapsed for run in runs if len(run.trials) >= trials), default=0.0)
    return {"trials": budgets(trials), "seconds": (elapsed / 4, elapsed / 2, elapsed)}


def budgets(trials: int) -> tuple[int, ...]:
    """The numbers of trials after which a search is judged."""
    return tuple(sorted({max(1, trials // 4), max(1, trials // 2), trials}))


def rows_of(runs: Mapping[LiveRun, SearchRun], contest: AnswerContest, trials: int) -> list[Row]:
    """A row for each search of one problem: the shares of its answers."""
    best, at = min(contest.seconds.values()), moments(runs.values(), trials)
    rows = []
    for run, searched in runs.items():
        shares = {kind: [0.0 if number is None else best / contest.seconds[number] for number in numbers]
                  for kind, numbers in contest.answers[run].items()}
        rows.append({
            "device": run.device.name, "problem": run.problem.key, "method": run.method, "seed": run.seed,
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


def leads_of(rows: Sequence[Row], trials: int) -> list[Row]:
    """The lead of the first method over each other one at each moment, with its interval; null if that is unknown."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    leads: list[Row] = []
    for kind in KINDS:
        for index, count in enumerate(budgets(trials)):
            means = log_shares(rows, kind, index)
            for method in methods[1:]:
                ratio, low, high = lead(means[methods[0]], means[method])
                known = math.isfinite(high)
                leads.append({"kind": kind, "trials": count if kind == "trials" else None,
                              "time": None if kind == "trials" else TIMES[index], "method": method,
                              "share": geometric(means[methods[0]]), "share_other": geometric(means[method]),
                              "ratio": ratio, "low": low if known else None, "high": high if known else None})
    return leads


def geometric(means: Mapping[tuple[str, str], float]) -> float:
    """The geometric mean over the problems."""
    return math.exp(sum(means.values()) / len(means))


def lead(ours: Mapping[tuple[str, str], float], theirs: Mapping[tuple[str, str], float]) -> tuple[float, float, float]:
    """The ratio of geometric means on the common problems, and its bootstrap interval; 0 and infinity if unknown."""
    differences = np.array([ours[problem] - theirs[problem] for problem in ours if problem in theirs])
    if len(differences) < FEWEST:
        return math.exp(differences.mean()), 0.0, math.inf
    generator = np.random.default_rng(0)
    drawn = differences[generator.integers(len(differences), size=(RESAMPLES, len(differences)))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return math.exp(differences.mean()), math.exp(low), math.exp(high)
