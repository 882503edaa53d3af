"""Replay searches that use knowledge of other problems: `python -m benchmarks across --out docs`.

The searches use the times of the shipped data set, so only measured configurations can be chosen. There are three
experiments for each device:

transfer: the number of trials that the portfolio needs to reach 97 % of the best known speed on a held-out problem,
from scratch and with the records of the nearest training problems (chosen as `tune` does, without near twins);
translator: the same number for searches that begin with the shipped translator's proposals, compared with random
trials, on held-out problems whose configurations were all measured;
campaign: the mean share that `tune --problems` reaches over all completely measured problems, with an empty journal and
without the translator, and the number of random trials of each problem that reach the same share. Either each problem
has the same number of `trials`, one problem after the other, or all problems share a `total` of the same size. A third
campaign, over held-out problems alone, begins with the translator's proposals, as `tune` does on a known device.

The trials to 97 % are medians over the runs of each problem; `median` is the median over the problems. The program
writes the page, across.json and across.svg, and prints Markdown tables. --state stores finished searches, so that a
second call resumes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    Row,
    height,
    markdown,
    save,
    share_axis,
    style,
    today,
)
from benchmarks.search.replayed_campaigns import LEVEL, MOST, FinishedSearches, campaigns, transfer, translator
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError


def table(rows: Sequence[Row]) -> str:
    """Make two tables: trials by experiment and device, and campaigns by number of trials."""
    def number(value: float | None) -> str:
        return f"> {MOST}" if value is None or math.isinf(value) else f"{value:g}"

    until_there = [[row["part"], row["device"], str(row["problems"]), number(row["median"]),
                    number(row["instead_of"]), f"{row['ratio']:.2f}"] for row in rows if row["part"] != "campaign"]
    shares = [[row["device"], row["budget"], str(row["problems"]), f"{row['trials']:.1f}", f"{row['share']:.3f}",
               f"{row['random_share']:.3f}", number(row["random"])] for row in rows if row["part"] == "campaign"]
    return "\n\n".join([
        markdown(["knows beforehand", "device", "problems", "trials to 97 %", "without", "ratio"], until_there, left=2),
        markdown(["device of the campaign", "budget", "problems", "trials of each", "mean share", "random's",
                  "random trials for as much"], shares, left=2)])


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the mean shares of campaigns and of random trials over the trials of each problem."""
    pyplot = style()
    campaigns = [row for row in rows if row["part"] == "campaign"]
    devices = list(dict.fromkeys(row["device"] for row in campaigns))
    figure, axes = pyplot.subplots(1, len(devices), figsize=(3.6 * len(devices), 2.7), squeeze=False)
    for axis, device in zip(axes[0], devices, strict=True):
        device_rows = [row for row in campaigns if row["device"] == device]
        share_axis(axis, 0.8)
        for name, colour, budget, column in (("shared budget", BLACK, "total", "share"),
                                             ("equal trials", BLUE, "trials", "share"),
                                             ("with the translator", ORANGE, "trials, translator", "share"),
                                             ("random", GREY, "trials", "random_share")):
            line = [row for row in device_rows if row["budget"] == budget]
            axis.plot([row["trials"] for row in line], [height(row[column]) for row in line], "o-", color=colour,
                      markersize=3, label=name)
        axis.set_title(device, loc="left")
        axis.set_xlabel("trials of each problem", loc="left")
        axis.legend(frameon=False, fontsize=7, loc="lower right")
    figure.supylabel("mean share of the best known speed", fontsize=9)
    save(figure, path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    ratios = [row["ratio"] for row in rows if row["part"] == "transfer"]
    random = [row["random"] for row in rows if row.get("budget") == "trials, translator" and row["trials"] == 2]
    claim = ("With the records of similar problems, the portfolio needs " + " and ".join(
        f"{ratio:.2f}" for ratio in ratios) + f" of the trials of a search from scratch to reach "
        f"{100 * results['level']:.0f} % of the best known "
        "speed on held-out problems.")
    if random and None not in random:
        claim += (" With the translator's proposals first, two trials of each problem reach the mean share of "
                  + " and ".join(map(str, random)) + " random trials.")
    return Page(
        "across", "Search across problems", claim, "python -m benchmarks across --out docs", table(rows),
        evaluated(results, "the shipped data set"),
        f"The first table has the number of trials to {100 * results['level']:.0f} % of the best known speed, as "
        "medians over the problems, and the number `without` this knowledge. `transfer` is the portfolio on held-out "
        "problems, with the records of the 12 nearest training problems (near twins excluded), compared with the "
        "portfolio from scratch. `translator` are searches that begin with the translator's proposals, compared with "
        "random trials, on held-out problems that were measured completely.\n\n"
        "The second table has campaigns that begin with an empty journal, over all problems that were measured "
        "completely: the mean share of the best speed, and the number of random trials of each problem that reach the "
        "same share. `trials`: the same number for each problem, one problem after the other; `total`: all problems "
        "share the same number of trials; `trials, translator`: with the translator's proposals first, on held-out "
        "problems alone.",
        ("One run of each campaign: a hundredth more or less is chance.",
         "Equal trials for each problem and a shared budget reach about the same share."),
        "Mean share over the trials of campaigns")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    add_out(parser, required=True)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--devices", default="llvm:avx512:2,opencl:cpu", help="names of devices, separated by commas")
    parser.add_argument("--repeats", type=positive, default=3, help="searches of each problem")
    parser.add_argument("--state", type=Path, help="file that stores finished searches")
    given = parser.parse_args(arguments)
    check_ready(given.out)
    data, finished, rows = read_dataset(given.data), FinishedSearches(given.state), list[Row]()
    devices = list(dict.fromkeys(given.devices.split(",")))
    names = sorted({device.name for device in data.devices.values()})
    for device in devices:
        if device not in names:
            raise MisuseError(f"no device {device!r:.60} in the data set; it has {', '.join(names)[:300]}")
    for device in devices:
        rows += [transfer(data, device, given.repeats, finished), *translator(data, device, given.repeats, finished),
                 *campaigns(data, device, finished)]
    finite_rows = [{name: None if isinstance(value, float) and not math.isfinite(value) else value
              for name, value in row.items()} for row in rows]
    publish(given.out, page, {"date": today(), "repeats": given.repeats, "level": LEVEL, "rows": finite_rows},
            lambda path: draw(rows, path))
    print(table(rows))
