"""Search on recorded spaces beside Kernel Tuner: `python -m benchmarks.search DATA --out docs`.

Our strategies and Kernel Tuner's (`pip install kernel_tuner`, or `--peers ''` for ours alone) search the same
recordings with the same seeds. Regret is 1 - optimum / best found, on average over the runs, and at least 0.001; the
best peer is the best other method of each space and budget, which favours the peers. Writes search.json and, of ours
and the best others, search.svg, which needs matplotlib; prints the table as Markdown. With `--work FOLDER` Kernel
Tuner's finished searches are kept there and not made again: they do not change with our code.
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
from benchmarks.common.program import positive, run_program
from benchmarks.common.report import markdown, today
from seqtune.cli.arguments import numbers
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError
from seqtune.figures.curves import draw
from seqtune.strategy_replay import STRATEGIES as OURS
from seqtune.strategy_replay import Replayed, recorded_spaces
from seqtune.tuner.simulation import Curves, RecordedSpace, SearchMethod, StrategyMethod, simulate
from seqtune.tuner.strategies.table import strategy_factory

LEAST_REGRET = 0.001
DRAWN = 4  # others in the figure
Row = Mapping[str, Any]


def regret(share: float) -> float:
    """How far from the optimum, and never nearer than what noise lets one tell."""
    return max(1 - share, LEAST_REGRET)


def ratios(rows: Sequence[Row], ours: str) -> list[dict[str, Any]]:
    """Our regret over the best peer's by space, device and budget; and over all spaces, by budget, as geometric mean.

    `behind` is how many standard errors of the difference we are behind that peer; negative where we are before it.
    """
    found: list[dict[str, Any]] = []
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        cells.setdefault((row["space"], row["device"], row["budget"]), {})[row["strategy"]] = row
    for (space, device, budget), methods in cells.items():
        peers = {name: row for name, row in methods.items() if name != ours}
        if ours not in methods or not peers:
            continue
        best = max(peers, key=lambda name: float(peers[name]["share_mean"]))
        mine, theirs = methods[ours], peers[best]
        error = math.hypot(mine["share_sem"] or 0.0, theirs["share_sem"] or 0.0)
        apart = theirs["share_mean"] - mine["share_mean"]
        found.append({"space": space, "device": device, "budget": budget, "best_peer": best,
                      "ratio": regret(mine["share_mean"]) / regret(theirs["share_mean"]),
                      "behind": apart / error if error else math.copysign(99.0, apart) if apart else 0.0})
    for budget in sorted({one["budget"] for one in found}):
        logs = [math.log(one["ratio"]) for one in found if one["budget"] == budget]
        found.append({"space": "all", "device": "", "budget": budget, "best_peer": "",
                      "ratio": math.exp(sum(logs) / len(logs)), "behind": None})
    return found


def table(found: Replayed) -> str:
    """A line per space, device and strategy: shares at each budget, and the evaluations to 95 % and 99 %."""
    shares = {(row["space"], row["device"], row["strategy"], row["budget"]): row["share_mean"]
              for row in found.rows()}
    lines = []
    for one in found.medians():
        place = one["space"], one["device"], one["strategy"]
        until = ["-" if one[name] is None else f"{one[name]:g}" for name in ("to_95", "to_99")]
        lines.append([*place, *(f"{shares[*place, budget]:.3f}" for budget in found.budgets), *until])
    return markdown(["space", "device", "strategy", *map(str, found.budgets), "to 95 %", "to 99 %"], lines, left=3)


def brief(rows: Sequence[Row], judged: Sequence[Row], ours: str) -> str:
    """A line per space and device: at each budget our mean share, and the best other's with its name."""
    shares = {(row["space"], row["device"], row["strategy"], row["budget"]): row["share_mean"] for row in rows}
    budgets = sorted({row["budget"] for row in rows})
    lines: dict[tuple[Any, Any], list[str]] = {}
    for one in judged:
        if one["best_peer"]:
            place = one["space"], one["device"]
            mine, theirs = (shares[*place, name, one["budget"]] for name in (ours, one["best_peer"]))
            lines.setdefault(place, [*map(str, place)]).append(
                f"{mine:.3f} ({theirs:.3f} {one['best_peer'].removeprefix(PREFIX)})")
    return markdown(["space", "device", *map(str, budgets)], list(lines.values()), left=2)


def clearest(curves: Sequence[Curves], ours: str) -> list[Curves]:
    """Those of ours and of the DRAWN best others: more lines than a figure's readers can follow say nothing."""
    means: dict[str, list[float]] = {}
    for one in curves:
        means.setdefault(one.method, []).append(float(one.shares.mean()))
    order = sorted(means, key=lambda name: (name != ours, -sum(means[name])))
    return [one for one in curves if one.method in order[:1 + DRAWN]]


def searched(given: argparse.Namespace, asked: Sequence[RecordedSpace], methods: Mapping[str, SearchMethod],
             trials: int) -> Iterator[Curves]:
    """The curves of each space and method; those of Kernel Tuner's methods are kept in the folder given for it."""
    for recorded in asked:
        for name, method in methods.items():
            print(f"\r{recorded.space} on {recorded.device}: {name:40}", end="", file=sys.stderr)
            kept = None
            if given.work is not None and name.startswith(PREFIX):
                data = zlib.crc32(recorded.seconds.tobytes())
                name_there = f"{name.removeprefix(PREFIX)} {trials} {given.repeats} {data:08x}.npy"
                kept = given.work / f"{cache_path(given.work, recorded).stem} {name_there}"
            if kept is not None and kept.exists():
                yield Curves(recorded.space, recorded.device, name, np.load(kept))
                continue
            curves, = simulate([recorded], {name: method}, trials, given.repeats, jobs=given.jobs)
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                np.save(unfinished := kept.with_suffix(".part.npy"), curves.shares)
                unfinished.replace(kept)  # a program that is stopped leaves no half of it
            yield curves
    print(file=sys.stderr)


def page(found: Results) -> Page:
    """The page of the result; with --transfer, one of its own."""
    ours, rows, judged = found["judged"], found["rows"], found["ratios"]
    overall = ", ".join(f"{one['ratio']:.2f} at {one['budget']}" for one in judged if one["space"] == "all")
    claim = (f"On recorded spaces of GPU kernels, the regret of `{ours}` divided by that of the best other strategy of "
             f"each space is {overall} evaluations (geometric mean over the spaces; below 1, `{ours}` is better).")
    if not judged:
        claim = f"`{ours}` was searched alone."
    return Page(
        "search_transfer" if found["transfer"] else "search", "Search on recorded spaces", claim,
        "python -m benchmarks.search RECORDED --out docs"
        + (f" --transfer {found['transfer']}" if found["transfer"] else ""),
        brief(rows, judged, ours), evaluated(found, "recorded measurements in RECORDED"),
        f"Mean share of the optimum's speed after so many evaluations ({found['repeats']} searches each) of `{ours}`, "
        "and in brackets that of the best other strategy at that budget in that space. The others are Kernel Tuner's "
        "strategies, and `autotvm`, `droplet` and `random` from here. Regret is 1 minus the share.",
        ("A measurement is a look-up; configurations that nobody measured are not in the space.",
         "Nothing was learned before the search."),
        f"Mean share of the optimum over the evaluations, of {ours} and of the best others")


def transfer_page(found: Results) -> Page:
    """The page of searches with other devices' records, beside the same without them (`without`)."""
    shares = {(row["space"], row["device"], row["budget"]): row["share_mean"] for row in found["rows"]}
    without = {(row["space"], row["device"], row["budget"]): row["share_mean"] for row in found["without"]}
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
        evaluated(found, "recorded measurements in RECORDED"),
        "The portfolio's mean share of the optimum's speed after so many evaluations, and in brackets that of searches "
        "without records (means of 30). The first proposal counts as 0 evaluations.",
        ("A search with records draws nothing at random, so all its repetitions are alike.",
         "The first proposal alone is not reliable: on one space it reaches 0.072 of the optimum."))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="recorded spaces, or a data set")
    add_out(parser, required=True)
    parser.add_argument("--strategies", default=",".join(OURS), help="ours, with commas between; the first is judged")
    parser.add_argument("--peers", default=",".join(STRATEGIES), help="Kernel Tuner's; empty: none")
    parser.add_argument("--budgets", default="25,50,100,200")
    parser.add_argument("--repeats", type=positive, default=30)
    parser.add_argument("--transfer", help="leave-device-out or leave-problem-out")
    parser.add_argument("--spaces", default="", help="only these")
    parser.add_argument("--devices", default="", help="only these")
    parser.add_argument("--jobs", type=positive, default=2)
    parser.add_argument("--work", type=Path, help="folder that keeps Kernel Tuner's finished searches")
    run(parser.parse_args())


def run(given: argparse.Namespace) -> None:
    """The comparison."""
    ours, peers, spaces, devices = (
        [part for part in text.split(",") if part]
        for text in (given.strategies, given.peers, given.spaces, given.devices))
    if not ours:
        raise MisuseError("name a strategy of ours")
    budgets = tuple(sorted(set(numbers("--budgets", given.budgets))))
    if not budgets:
        raise MisuseError("name a budget")
    check_ready(given.out)
    if peers:
        check_installed()
    asked = recorded_spaces(read_dataset(given.data), given.transfer, spaces, devices)
    with tempfile.TemporaryDirectory(prefix="seqtune-peers-") as folder:
        methods: dict[str, SearchMethod] = {name: StrategyMethod(strategy_factory(name)) for name in ours}
        methods |= {PREFIX + name: Peer(name, Path(folder)) for name in peers}
        for recorded in list(asked):
            reason = searchable(recorded) if peers else None
            if reason is not None:
                print(f"{recorded.space} on {recorded.device} is left out: {reason}", file=sys.stderr)
                asked.remove(recorded)
            elif peers:
                write_cache(Path(folder), recorded)
        curves = list(searched(given, asked, methods, max(1, *budgets)))
    found = Replayed(tuple(curves), budgets, given.transfer)
    judged = ratios(found.rows(), ours[0])
    written = {"date": today(), "repeats": given.repeats, "judged": ours[0], "ratios": judged, **found.to_json()}
    publish(given.out, page, written, lambda path: draw(clearest(curves, ours[0]), path))
    print(f"{table(found)}\n\n{page(written).claim}" if judged else table(found))


if __name__ == "__main__":
    run_program("search", main)
