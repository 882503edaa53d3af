"""Search across problems: `python -m benchmarks.across --out docs`.

Replayed on the shipped data, where only what was measured can be found. Three questions, each per device:

transfer: how many trials the portfolio needs until 97 % of the best known speed on a held-out problem, from scratch and
with the records of the nearest other problems (training ones that are not near it; as `tune` would choose them);
translator: the same with the shipped translator's proposals to begin with, beside random trials, on held-out problems
of which every configuration was measured;
campaign: what share `tune --problems` reaches on average over all problems of which everything was measured, with an
empty journal and without the translator, and how many random trials of each problem reach as much: with equal `trials`
for each problem, one after the other, and with as large a `total` that they share; and, over held-out problems alone,
with the translator, as `tune` is where the device is known.

Trials until 97 % are medians over the runs of each problem; `median` is that of the problems. Writes the page,
across.json and across.svg, and prints a Markdown table. --state keeps what is done, so that a second time goes on.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.page import Page, Results, add_out, check_ready, evaluated, publish
from benchmarks.common.program import positive, run_program
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
from benchmarks.search.replayed_campaigns import LEVEL, MOST, State, campaigns, transfer, translator
from seqtune.data.formats.dataset_file import read_dataset
from seqtune.errors import MisuseError


def table(rows: Sequence[Row]) -> str:
    """A line per question and device; of campaigns, one per number of trials."""
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
    """Mean shares of campaigns over the trials of each problem, beside random trials."""
    pyplot = style()
    campaigns = [row for row in rows if row["part"] == "campaign"]
    devices = list(dict.fromkeys(row["device"] for row in campaigns))
    figure, axes = pyplot.subplots(1, len(devices), figsize=(3.6 * len(devices), 2.7), squeeze=False)
    for axis, device in zip(axes[0], devices, strict=True):
        mine = [row for row in campaigns if row["device"] == device]
        share_axis(axis, 0.8)
        for name, colour, budget, column in (("shared budget", BLACK, "total", "share"),
                                             ("equal trials", BLUE, "trials", "share"),
                                             ("with the translator", ORANGE, "trials, translator", "share"),
                                             ("random", GREY, "trials", "random_share")):
            line = [row for row in mine if row["budget"] == budget]
            axis.plot([row["trials"] for row in line], [height(row[column]) for row in line], "o-", color=colour,
                      markersize=3, label=name)
        axis.set_title(device, loc="left")
        axis.set_xlabel("trials of each problem", loc="left")
        axis.legend(frameon=False, fontsize=7, loc="lower right")
    figure.supylabel("mean share of the best known speed", fontsize=9)
    save(figure, path)


def page(found: Results) -> Page:
    """The page of the result."""
    rows = found["rows"]
    ratios = [row["ratio"] for row in rows if row["part"] == "transfer"]
    random = [row["random"] for row in rows if row.get("budget") == "trials, translator" and row["trials"] == 2]
    claim = ("With the records of similar problems, the portfolio needs " + " and ".join(
        f"{ratio:.2f}" for ratio in ratios) + f" of the trials to reach {100 * found['level']:.0f} % of the best known "
        "speed on held-out problems.")
    if random and None not in random:
        claim += (" With the translator's proposals first, two trials of each problem do what "
                  + " and ".join(map(str, random)) + " random ones do.")
    return Page(
        "across", "Search across problems", claim, "python -m benchmarks.across --out docs", table(rows),
        evaluated(found, "the shipped data set"),
        f"First table: trials until {100 * found['level']:.0f} % of the best known speed, as medians over the "
        "problems. `transfer`: the portfolio on held-out problems, with what is known of the 12 nearest training "
        "problems (none near the held-out one), instead of from scratch. `translator`: searches that begin with the "
        "translator's proposals, instead of random trials, on held-out problems that were measured completely.\n\n"
        "Second table: campaigns that begin with an empty journal, over all problems that were measured completely: "
        "the mean share of the best speed, and how many random trials of each problem reach as much. `trials`: equally "
        "many for each problem, one after the other; `total`: as many trials that the problems share; "
        "`trials, translator`: with the translator's proposals first, on held-out problems alone.",
        ("One run of each campaign: a hundredth more or less is chance.",
         "Equal trials and a shared budget are about level."),
        "Mean share over the trials of campaigns")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_out(parser, required=True)
    parser.add_argument("--data", type=Path, help="a data set (Parquet) other than the shipped one")
    parser.add_argument("--devices", default="llvm:avx512:2,opencl:cpu", help="with commas between")
    parser.add_argument("--repeats", type=positive, default=3, help="searches of each problem")
    parser.add_argument("--state", type=Path, help="keeps what is done")
    given = parser.parse_args()
    check_ready(given.out)
    data, state, rows = read_dataset(given.data), State(given.state), list[Row]()
    devices = list(dict.fromkeys(given.devices.split(",")))
    there = sorted({device.name for device in data.devices.values()})
    for device in devices:
        if device not in there:
            raise MisuseError(f"no device {device!r:.60} in these data; there are {', '.join(there)[:300]}")
    for device in devices:
        rows += [transfer(data, device, given.repeats, state), *translator(data, device, given.repeats, state),
                 *campaigns(data, device, state)]
    plain = [{name: None if isinstance(value, float) and not math.isfinite(value) else value
              for name, value in row.items()} for row in rows]
    publish(given.out, page, {"date": today(), "repeats": given.repeats, "level": LEVEL, "rows": plain},
            lambda path: draw(rows, path))
    print(table(rows))


if __name__ == "__main__":
    run_program("across", main)
