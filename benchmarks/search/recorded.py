"""Recorded problems: searches in which a measurement is a look-up, compared by their shares of the optimum's speed.

A method of ours may know something beforehand: `portfolio+history` knows the records of other problems or devices,
`portfolio+proposals` begins with the predictor's proposals. Kernel Tuner's strategies search the same spaces with the
same look-ups.
"""

from __future__ import annotations

import argparse
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from benchmarks.common.finished import Finished
from benchmarks.common.page import Page, Results, evaluated
from benchmarks.common.report import Row, markdown, today
from benchmarks.search.comparison import Search
from benchmarks.search.peers import PREFIX, Peer
from seqtune.api.replaying import Replayed, recorded_spaces
from seqtune.cli.arguments import parts
from seqtune.data.dataset import Dataset
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError
from seqtune.figures.picture import save
from seqtune.figures.searches import convergence
from seqtune.kernels.problem import Problem
from seqtune.kernels.problem_sets.similarity import distance, near
from seqtune.kernels.task import MeasuredTask
from seqtune.predictor.answering import seeds_for
from seqtune.tuner.run.history import LEAST_TRIALS, MOST_PROBLEMS
from seqtune.tuner.run.simulation import Curves, RecordedSpace, SearchMethod, StrategyMethod, simulate
from seqtune.tuner.strategies.table import strategy_factory

LEAST_REGRET = 0.001
DRAWN = 4  # number of other methods in the figure
LEVEL = 0.97  # share of the best known speed, to which evaluations are counted across problems
History = Callable[[RecordedSpace], tuple[MeasuredTask, ...]]


@dataclass(frozen=True)
class RecordedProblem:
    """A recorded space, searched `seeds` times with `trials` evaluations."""

    recorded: RecordedSpace
    trials: int
    seeds: int
    jobs: int
    history: History

    @property
    def names(self) -> Sequence[object]:
        """The space, the device, a checksum of the times, and the budget."""
        checksum = zlib.crc32(self.recorded.seconds.tobytes())
        return self.recorded.space, "on", self.recorded.device, f"{checksum:08x}", self.trials, self.seeds

    def searches(self, methods: Sequence[str]) -> Sequence[Search]:
        """A search with all seeds for each method: look-ups need not take turns."""
        return [Search(method) for method in methods]

    def is_stored(self, search: Search) -> bool:
        """Only Kernel Tuner's searches are stored: ours change with our code."""
        return search.method.startswith(PREFIX)

    @contextmanager
    def ready(self, finished: Finished) -> Iterator[None]:
        """Nothing needs to be open."""
        yield

    def search(self, search: Search, finished: Finished) -> list[list[float]]:
        """The best share after each evaluation, (seed, evaluation)."""
        recorded = replace(self.recorded, history=())
        if search.method.startswith(PREFIX):
            method: SearchMethod = Peer(search.method.removeprefix(PREFIX))
        else:
            strategy, _, knowledge = search.method.partition("+")
            method = StrategyMethod(strategy_factory(strategy))
            if knowledge == "history":
                recorded = replace(recorded, history=self.history(self.recorded))
            elif knowledge == "proposals":
                recorded = replace(recorded, seeds=seeds_for(recorded.task))
        curves, = simulate([recorded], {search.method: method}, self.trials, self.seeds, jobs=self.jobs)
        shares: list[list[float]] = curves.shares.tolist()
        return shares

    def outcomes(self, results: Mapping[Search, Any], finished: Finished) -> list[Curves]:
        """The curves of the methods."""
        return [Curves(self.recorded.space, self.recorded.device, search.method, np.array(shares))
                for search, shares in results.items()]


def spaces(given: argparse.Namespace, methods: Sequence[str]) -> list[RecordedProblem]:
    """The recorded spaces of --data; the history of one has the records of the other devices."""
    if given.data is None:
        raise MisuseError("--on recorded needs --data RECORDED, a folder of recorded spaces or a data set")
    transfer = "leave-device-out" if any(name.endswith("+history") for name in methods) else None
    return [RecordedProblem(recorded, max(1, *given.budgets), given.seeds, given.jobs, records_of_devices)
            for recorded in recorded_spaces(read_dataset(given.data), transfer, parts(given.problems),
                                            parts(given.devices))]


def records_of_devices(recorded: RecordedSpace) -> tuple[MeasuredTask, ...]:
    """The records of the other devices, which `recorded_spaces` found."""
    return recorded.history


def held_out(given: argparse.Namespace, methods: Sequence[str]) -> list[RecordedProblem]:
    """The held-out problems of a data set, by default the shipped one; the history is that of similar problems."""
    data = read_dataset(given.data)
    problems = []
    for device in parts(given.devices):
        data.device(device)  # raises DeviceError before anything is searched
    for device in parts(given.devices):
        asked = recorded_spaces(data, devices=[device], held_out=True, spaces=parts(given.problems))
        history = NearestProblems(data, device)
        problems += [RecordedProblem(recorded, max(1, *given.budgets), given.seeds, given.jobs, history)
                     for recorded in asked]
    return problems


class NearestProblems:
    """The history of a problem from the training problems of a data set on one device."""

    def __init__(self, data: Dataset, device: str) -> None:
        self._data, self._device = data, device
        self._training: list[MeasuredTask] | None = None

    def __call__(self, recorded: RecordedSpace) -> tuple[MeasuredTask, ...]:
        if self._training is None:
            rows = self._data.rows[~self._data.rows["problem"].isin(self._data.held_out)]
            self._training = [space.measured for space in recorded_spaces(replace(self._data, rows=rows),
                                                                          devices=[self._device])]
        return nearest(recorded.task.problem, self._training)


def nearest(problem: Problem, others: Sequence[MeasuredTask]) -> tuple[MeasuredTask, ...]:
    """The problems whose records `tune` would use: the nearest ones that are no near twins of this problem."""
    similar = [other for other in others if other.problem.type == problem.type and not near(other.problem, problem)
               and len(other.seconds) >= LEAST_TRIALS]
    similar.sort(key=lambda other: (distance(other.problem, problem), other.problem.key))
    return tuple(similar[:MOST_PROBLEMS])


def regret(share: float) -> float:
    """The distance from the optimum, at least LEAST_REGRET, because noise hides smaller ones."""
    return max(1 - share, LEAST_REGRET)


def ratios(rows: Sequence[Row], ours: str) -> list[Row]:
    """Divide our regret by that of the best peer, by space, device and budget; then geometric means, by budget.

    The best peer is the best other method of each space and budget, which favours the peers. `behind` is the difference
    from that peer in standard errors, negative if our strategy is better.
    """
    ratio_rows: list[Row] = []
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row["space"], row["device"], row["budget"]), {})[row["strategy"]] = row
    for (space, device, budget), methods in cells.items():
        peers = {name: row for name, row in methods.items() if name != ours}
        if ours not in methods or not peers:
            continue
        best = max(peers, key=lambda name: float(peers[name]["share_mean"]))
        our_row, their_row = methods[ours], peers[best]
        error = math.hypot(our_row["share_sem"] or 0.0, their_row["share_sem"] or 0.0)
        difference = their_row["share_mean"] - our_row["share_mean"]
        behind = difference / error if error else math.copysign(99.0, difference) if difference else 0.0
        ratio_rows.append({"space": space, "device": device, "budget": budget, "best_peer": best,
                           "ratio": regret(our_row["share_mean"]) / regret(their_row["share_mean"]), "behind": behind})
    for budget in sorted({row["budget"] for row in ratio_rows}):
        logs = [math.log(row["ratio"]) for row in ratio_rows if row["budget"] == budget]
        ratio_rows.append({"space": "all", "device": "", "budget": budget, "best_peer": "",
                      "ratio": math.exp(sum(logs) / len(logs)), "behind": None})
    return ratio_rows


def table(replayed: Replayed) -> str:
    """Make the full table, by space, device and strategy: shares at each budget, and evaluations to 95 % and 99 %."""
    shares = {(row["space"], row["device"], row["strategy"], row["budget"]): row["share_mean"]
              for row in replayed.rows()}
    lines = []
    for medians in replayed.medians():
        search = medians["space"], medians["device"], medians["strategy"]
        evaluations = ["-" if medians[name] is None else f"{medians[name]:g}" for name in ("to_95", "to_99")]
        lines.append([*search, *(f"{shares[*search, budget]:.3f}" for budget in replayed.budgets), *evaluations])
    return markdown(["space", "device", "strategy", *map(str, replayed.budgets), "to 95 %", "to 99 %"], lines, left=3)


def brief(rows: Sequence[Row], ratio_rows: Sequence[Row], ours: str) -> str:
    """Make the short table, by space and device: our mean share at each budget, and that of the best other method."""
    shares = {(row["space"], row["device"], row["strategy"], row["budget"]): row["share_mean"] for row in rows}
    budgets = sorted({row["budget"] for row in rows})
    lines: dict[tuple[Any, Any], list[str]] = {}
    for row in ratio_rows:
        if row["best_peer"]:
            search = row["space"], row["device"]
            our_share, their_share = (shares[*search, name, row["budget"]]
                                      for name in (ours, row["best_peer"]))
            lines.setdefault(search, [*map(str, search)]).append(
                f"{our_share:.3f} ({their_share:.3f} {row['best_peer'].removeprefix(PREFIX)})")
    return markdown(["space", "device", *map(str, budgets)], list(lines.values()), left=2)


def over_problems(curves: Sequence[Curves], budgets: Sequence[int]) -> str:
    """Make the table over many problems, by device and method: mean shares, and the median evaluations to LEVEL."""
    cells: dict[tuple[str, str], list[Curves]] = {}
    for curve in curves:
        cells.setdefault((curve.device.partition(" ")[0], curve.method), []).append(curve)
    lines = []
    for (device, method), searched in cells.items():
        evaluations = median(math.inf if (count := curve.evaluations_to(LEVEL)) is None else count
                             for curve in searched)
        lines.append([device, method, str(len(searched)),
                      *(f"{fmean(curve.row(budget)['share_mean'] for curve in searched):.3f}" for budget in budgets),
                      f"> {budgets[-1]}" if math.isinf(evaluations) else f"{evaluations:g}"])
    return markdown(["device", "strategy", "problems", *map(str, budgets), f"to {LEVEL:.0%}"], lines, left=2)


def clearest(curves: Sequence[Curves], ours: str) -> list[Curves]:
    """Choose the curves of our strategy and of the DRAWN best others; more lines cannot be followed in one figure."""
    means: dict[str, list[float]] = {}
    for curve in curves:
        means.setdefault(curve.method, []).append(float(curve.shares.mean()))
    order = sorted(means, key=lambda name: (name != ours, -sum(means[name])))
    return [curve for curve in curves if curve.method in order[:1 + DRAWN]]


def page(results: Results) -> Page:
    """Make the page of the results."""
    ours, rows, ratio_rows = results["ours"], results["rows"], results["ratios"]
    overall = ", ".join(f"{row['ratio']:.2f} at {row['budget']}" for row in ratio_rows if row["space"] == "all")
    claim = (f"On recorded spaces of GPU kernels, the regret of `{ours}` divided by that of the best other strategy of "
             f"each space is {overall} evaluations (geometric mean over the spaces; below 1, `{ours}` is better).")
    if not ratio_rows:
        claim = f"Only `{ours}` was used; there is no other method to compare it with."
    return Page(
        "search", "Search on recorded spaces", claim, "python -m benchmarks search --data RECORDED --out docs",
        brief(rows, ratio_rows, ours), evaluated(results, "recorded measurements in RECORDED"),
        f"The columns are numbers of evaluations. Each cell has the mean share of the optimum's speed that `{ours}` "
        f"reaches ({results['repeats']} searches each), and in brackets that of the best other strategy in that space "
        "at that budget. The others are Kernel Tuner's strategies and seqtune's `autotvm`, `droplet` and `random`. "
        "Regret is 1 minus the share.",
        ("A measurement is a look-up; configurations that were not recorded are not in the space.",
         "The strategies begin without any knowledge of the space."),
        f"Mean share of the optimum over the evaluations, of {ours} and of the best others")


def report(given: argparse.Namespace, curves: Sequence[Curves]) -> tuple[Results, str, Callable[[Path], None]]:
    """The results of the recorded spaces as a JSON object, their table, and what draws the figure."""
    ours = parts(given.strategies)[0]
    replayed = Replayed(tuple(curves), given.budgets)
    ratio_rows = ratios(replayed.rows(), ours)
    results = {"date": today(), "repeats": given.seeds, "ours": ours, "ratios": ratio_rows, **replayed.to_json()}
    text = f"{table(replayed)}\n\n{page(results).claim}" if ratio_rows else table(replayed)
    return results, text, lambda path: save(convergence(clearest(curves, ours)), path, with_text=True)


def report_across(given: argparse.Namespace, curves: Sequence[Curves]) -> tuple[Results, str, None]:
    """The results over the held-out problems of each device, and their table."""
    replayed = Replayed(tuple(curves), given.budgets)
    return {"date": today(), "repeats": given.seeds, **replayed.to_json()}, over_problems(curves, given.budgets), None
