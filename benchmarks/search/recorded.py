"""Compare search strategies with Kernel Tuner's on recorded spaces: `python -m benchmarks search DATA --out docs`.

Our strategies and Kernel Tuner's (`pip install kernel_tuner`, or `--peers ''` for ours alone) search the same recorded
spaces with the same seeds. Regret is 1 - optimum / best found, averaged over the runs, and at least 0.001. The best
peer is the best other method of each space and budget, which favours the peers. The program writes search.json and
search.svg (with our strategy and the best others; it needs matplotlib), and prints the table as Markdown. `--work
FOLDER` stores Kernel Tuner's finished searches, which do not change with our code, and does not repeat them.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.peers import PREFIX, STRATEGIES, Peer, cache_path, check_installed, searchable, write_cache
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import markdown, today
from seqtune.cli.arguments import numbers
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError
from seqtune.reporting.curves import draw
from seqtune.strategy_replay import STRATEGIES as OURS
from seqtune.strategy_replay import Replayed, recorded_spaces
from seqtune.tuner.run.simulation import Curves, RecordedSpace, SearchMethod, StrategyMethod, simulate
from seqtune.tuner.strategies.table import strategy_factory

LEAST_REGRET = 0.001
DRAWN = 4  # number of other methods in the figure
Row = Mapping[str, Any]


def regret(share: float) -> float:
    """The distance from the optimum, at least LEAST_REGRET, because noise hides smaller ones."""
    return max(1 - share, LEAST_REGRET)


def ratios(rows: Sequence[Row], ours: str) -> list[dict[str, Any]]:
    """Divide our regret by that of the best peer, by space, device and budget; then geometric means, by budget.

    `behind` is the difference from that peer in standard errors, negative if our strategy is better.
    """
    ratio_rows: list[dict[str, Any]] = []
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


def brief(rows: Sequence[Row], judged: Sequence[Row], ours: str) -> str:
    """Make the short table, by space and device: our mean share at each budget, and that of the best other method."""
    shares = {(row["space"], row["device"], row["strategy"], row["budget"]): row["share_mean"] for row in rows}
    budgets = sorted({row["budget"] for row in rows})
    lines: dict[tuple[Any, Any], list[str]] = {}
    for judged_row in judged:
        if judged_row["best_peer"]:
            search = judged_row["space"], judged_row["device"]
            our_share, their_share = (shares[*search, name, judged_row["budget"]]
                                      for name in (ours, judged_row["best_peer"]))
            lines.setdefault(search, [*map(str, search)]).append(
                f"{our_share:.3f} ({their_share:.3f} {judged_row['best_peer'].removeprefix(PREFIX)})")
    return markdown(["space", "device", *map(str, budgets)], list(lines.values()), left=2)


def clearest(curves: Sequence[Curves], ours: str) -> list[Curves]:
    """Choose the curves of our strategy and of the DRAWN best others; more lines cannot be followed in one figure."""
    means: dict[str, list[float]] = {}
    for curve in curves:
        means.setdefault(curve.method, []).append(float(curve.shares.mean()))
    order = sorted(means, key=lambda name: (name != ours, -sum(means[name])))
    return [curve for curve in curves if curve.method in order[:1 + DRAWN]]


def searched(given: argparse.Namespace, spaces: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod],
             trials: int) -> Iterator[Curves]:
    """Search each space with each method; the curves of Kernel Tuner's methods are stored in the folder --work."""
    for recorded in spaces:
        for name, method in methods.items():
            print(f"\r{recorded.space} on {recorded.device}: {name:40}", end="", file=sys.stderr)
            path = None
            if given.work is not None and name.startswith(PREFIX):
                checksum = zlib.crc32(recorded.seconds.tobytes())
                file_name = f"{name.removeprefix(PREFIX)} {trials} {given.repeats} {checksum:08x}.npy"
                path = given.work / f"{cache_path(given.work, recorded).stem} {file_name}"
            if path is not None and path.exists():
                yield Curves(recorded.space, recorded.device, name, np.load(path))
                continue
            curves, = simulate([recorded], {name: method}, trials, given.repeats, jobs=given.jobs)
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                np.save(unfinished := path.with_suffix(".part.npy"), curves.shares)
                unfinished.replace(path)  # so that an interrupted program leaves no incomplete file
            yield curves
    print(file=sys.stderr)


def page(results: Results) -> Page:
    """Make the page of the results; with --transfer it has another name."""
    ours, rows, judged = results["judged"], results["rows"], results["ratios"]
    overall = ", ".join(f"{row['ratio']:.2f} at {row['budget']}" for row in judged if row["space"] == "all")
    claim = (f"On recorded spaces of GPU kernels, the regret of `{ours}` divided by that of the best other strategy of "
             f"each space is {overall} evaluations (geometric mean over the spaces; below 1, `{ours}` is better).")
    if not judged:
        claim = f"Only `{ours}` was used; there is no other method to compare it with."
    return Page(
        "search_transfer" if results["transfer"] else "search", "Search on recorded spaces", claim,
        "python -m benchmarks search RECORDED --out docs"
        + (f" --transfer {results['transfer']}" if results["transfer"] else ""),
        brief(rows, judged, ours), evaluated(results, "recorded measurements in RECORDED"),
        f"The columns are numbers of evaluations. Each cell has the mean share of the optimum's speed that `{ours}` "
        f"reaches ({results['repeats']} searches each), and in brackets that of the best other strategy in that space "
        "at that budget. The others are Kernel Tuner's strategies and seqtune's `autotvm`, `droplet` and `random`. "
        "Regret is 1 minus the share.",
        ("A measurement is a look-up; configurations that were not recorded are not in the space.",
         "The strategies begin without any knowledge of the space."),
        f"Mean share of the optimum over the evaluations, of {ours} and of the best others")


def transfer_page(results: Results) -> Page:
    """Make the page of searches with other devices' records, compared with searches without them (`without`)."""
    shares = {(row["space"], row["device"], row["budget"]): row["share_mean"] for row in results["rows"]}
    without = {(row["space"], row["device"], row["budget"]): row["share_mean"] for row in results["without"]}
    budgets = sorted({budget for _, _, budget in shares})
    lines = [[space, device, *(
        f"{shares[space, device, budget]:.3f}" + (
            f" ({without[space, device, budget]:.3f})" if (space, device, budget) in without else "")
        for budget in budgets)] for space, device in dict.fromkeys((space, device) for space, device, _ in shares)]
    ratios = []
    for budget in budgets:
        logs = [math.log(regret(shares[key]) / regret(other)) for key, other in without.items() if key[2] == budget]
        if logs:
            ratios.append(f"{math.exp(sum(logs) / len(logs)):.2f} at {budget}")
    return Page(
        "search_transfer", "Search with other devices' records",
        "With the records of the other devices, the portfolio's regret divided by its regret without them is "
        f"{', '.join(ratios)} evaluations (geometric mean over the spaces; below 1, the records help).",
        "seqtune replay RECORDED --transfer leave-device-out --strategies portfolio --budgets 0,5,25,50,100,200 --json",
        markdown(["space", "device", *map(str, budgets)], lines, left=2),
        evaluated(results, "recorded measurements in RECORDED"),
        "The columns are numbers of evaluations. Each cell has the mean share of the optimum's speed that the "
        "portfolio reaches, and in brackets that of searches without records (means of 30). The first proposal counts "
        "as 0 evaluations.",
        ("A search with records draws nothing at random, so all its repetitions are equal.",
         "The first proposal alone is not reliable: on one space it reaches 0.072 of the optimum."))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("data", type=Path, help="recorded spaces, or a data set")
    add_out(parser, required=True)
    parser.add_argument("--strategies", default=",".join(OURS),
                        help="our strategies, separated by commas; the first one is compared with the others")
    parser.add_argument("--peers", default=",".join(STRATEGIES),
                        help="strategies of Kernel Tuner, separated by commas; empty for none")
    parser.add_argument("--budgets", default="25,50,100,200")
    parser.add_argument("--repeats", type=positive, default=30)
    parser.add_argument("--transfer", help="leave-device-out or leave-problem-out")
    parser.add_argument("--spaces", default="", help="only these spaces")
    parser.add_argument("--devices", default="", help="only these devices")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--work", type=Path, help="folder that stores Kernel Tuner's finished searches")
    run(parser.parse_args(arguments))


def run(given: argparse.Namespace) -> None:
    """Compare the strategies and write the results."""
    ours, peers, spaces, devices = (
        [part for part in text.split(",") if part]
        for text in (given.strategies, given.peers, given.spaces, given.devices))
    if not ours:
        raise MisuseError("--strategies is empty; name at least one")
    budgets = tuple(sorted(set(numbers("--budgets", given.budgets))))
    if not budgets:
        raise MisuseError("--budgets is empty; name at least one")
    check_ready(given.out)
    if peers:
        check_installed()
    searched_spaces = recorded_spaces(read_dataset(given.data), given.transfer, spaces, devices)
    with tempfile.TemporaryDirectory(prefix="seqtune-peers-") as folder:
        methods: dict[str, SearchMethod] = {name: StrategyMethod(strategy_factory(name)) for name in ours}
        methods |= {PREFIX + name: Peer(name, Path(folder)) for name in peers}
        for recorded in list(searched_spaces):
            reason = searchable(recorded) if peers else None
            if reason is not None:
                print(f"{recorded.space} on {recorded.device} is left out: {reason}", file=sys.stderr)
                searched_spaces.remove(recorded)
            elif peers:
                write_cache(Path(folder), recorded)
        curves = list(searched(given, searched_spaces, methods, max(1, *budgets)))
    replayed = Replayed(tuple(curves), budgets, given.transfer)
    judged = ratios(replayed.rows(), ours[0])
    results = {"date": today(), "repeats": given.repeats, "judged": ours[0], "ratios": judged, **replayed.to_json()}
    publish(given.out, page, results, lambda path: draw(clearest(curves, ours[0]), path))
    print(f"{table(replayed)}\n\n{page(results).claim}" if judged else table(replayed))
