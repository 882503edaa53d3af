"""Measure where one driver becomes the limit of a fleet, with simulated devices: `python -m benchmarks fleet_scale`.

The devices are simulated: each answers after 50 ms of the virtual clock. The driver is real: its searches, its queues
and its journal. The processor time that it takes passes on the virtual clock as well, so devices wait for a driver that
is too slow. `efficiency` is the share of the devices' time in which they measured trials, from the first batch to the
last record.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from benchmarks.common.page import Page, Results, add_out, check_ready, measured_on, publish
from benchmarks.common.program import OneLineParser, positive
from benchmarks.common.report import BLUE, GREY, ORANGE, Row, markdown, processor, save, style
from benchmarks.fleet.simulated_work import KERNEL, members, problems, seconds
from seqtune.data.journal.journal import Journal
from seqtune.data.record import Record
from seqtune.kernels.task import Task
from seqtune.tuner.fleet.run import FleetRun
from seqtune.tuner.run.plan import Budget, Finals, Plan, TuningOptions

from .simulated_engine import SimulatedEngine

SIZES = (1, 10, 30, 100, 200, 300, 500, 1000)
COST = 0.05  # s of a measurement
TRIALS = 400  # of a problem
SECONDS = 60.0  # of the undisturbed run: the begin and the end, where devices wait, then matter little
MOST = 400_000  # measurements of a run, so that the largest fleets are simulated in minutes
BAR = 0.9  # efficiency that a fleet must reach


class TimedJournal(Journal):
    """A journal that counts the time of writing."""

    seconds = 0.0

    def add_all(self, records: Sequence[Record]) -> int:
        """Store records."""
        begin = time.process_time()
        try:
            return super().add_all(records)
        finally:
            self.seconds += time.process_time() - begin


def simulate(size: int, folder: Path) -> Row:
    """Run a fleet of `size` alike devices; return its row."""
    count = max(2, round(min(MOST, size * SECONDS / COST) / TRIALS))
    journal = TimedJournal(folder / f"{size}.sqlite")
    with journal:
        engine = SimulatedEngine(members(size), seconds, cost=COST, charged=True)
        run = FleetRun(Plan(problems(count), Budget(TRIALS), TuningOptions("random", finals=Finals(count=0)),
                            partial(Task.of, kernels=[KERNEL])), engine, journal)
        begin = time.perf_counter()
        trials = sum(result.done for result in run.results())
        wall = time.perf_counter() - begin
    return {"devices": size, "trials": trials, "seconds": engine.clock, "efficiency": trials * COST / (
            size * engine.clock), "rate": trials / engine.clock, "driver": engine.driver / trials,
            "share": engine.driver / engine.clock, "journal": journal.seconds / trials, "wall": wall}


def knee(rows: Sequence[Row]) -> int:
    """The largest number of devices with an efficiency of BAR; 0 if there is none."""
    return max((int(row["devices"]) for row in rows if row["efficiency"] >= BAR), default=0)


def table(rows: Sequence[Row]) -> str:
    """Make the table: a line for each size."""
    return markdown(
        ["devices", "trials", "efficiency", "trials/s", "driver, µs for a trial", "of it journal, µs", "driver busy"],
        [[f"{row['devices']}", f"{row['trials']:,}", f"{row['efficiency']:.3f}", f"{row['rate']:,.0f}",
          f"{1e6 * row['driver']:.0f}", f"{1e6 * row['journal']:.0f}", f"{100 * row['share']:.0f} %"] for row in rows],
        left=0)


def draw(path: Path, rows: Sequence[Row]) -> None:
    """Draw efficiency and rate over the number of devices."""
    pyplot = style()
    figure, axes = pyplot.subplots(1, 2, figsize=(8.4, 3.0))
    sizes = [row["devices"] for row in rows]
    axes[0].axhline(BAR, color=GREY, linewidth=1)
    axes[0].plot(sizes, [row["efficiency"] for row in rows], "o-", color=BLUE)
    axes[0].set_ylim(0, 1.02)
    axes[0].set_title("efficiency", loc="left")
    axes[1].plot(sizes, [size / COST for size in sizes], "--", color=GREY, label="all devices busy")
    axes[1].plot(sizes, [row["rate"] for row in rows], "s-", color=ORANGE, label="measured")
    axes[1].set_yscale("log")
    axes[1].set_title("trials/s", loc="left")
    axes[1].legend(frameon=False)
    for axis in axes:
        axis.set_xscale("log")
        axis.set_xlabel("devices")
    save(figure, path)


def page(results: Results) -> Page:
    """Make the page of the results."""
    rows = results["rows"]
    hundred = next((row for row in rows if row["devices"] == 100), rows[-1])
    busiest = max(rows, key=lambda row: float(row["rate"]))
    return Page(
        "fleet_scale", "The size of a fleet",
        f"One driver keeps {hundred['devices']} devices busy for {100 * hundred['efficiency']:.0f} % of their time at "
        f"{1e3 * COST:.0f} ms for a measurement. The largest fleet here with {100 * BAR:.0f} % has {knee(rows)} "
        f"devices. The driver handles at most {busiest['rate']:,.0f} trials/s, and then works for "
        f"{100 * busiest['share']:.0f} % of the time.",
        "python -m benchmarks fleet_scale --out docs", table(rows), measured_on(results),
        "The devices are simulated, the driver with its searches and its journal is real, on one core. `driver` is its "
        "processor time for a trial, `driver busy` the share of the time in which it works.",
        ("A run lasts 30 to 70 s of the virtual clock. Where the driver is not busy, most of the loss is in its last "
         "third: no problem is left to be opened, and rounds of 16 proposals are divided among many devices.",
         "Beyond the knee, run one driver for each part of the problems, each with a journal of its own: "
         "`seqtune export` writes each as a data set, and `seqtune import parquet` joins them. Measurements of 0.5 s "
         "move the knee to ten times as many devices.",
         "The search is random: strategies that learn take more of the driver's time for a proposal.",
         "All devices are alike. Each kind of device builds the search spaces of all problems once.",
         "Messages cost the driver nothing here; with Ray each costs some tens of microseconds for a batch."),
        "Efficiency and trials per second over the number of devices")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = OneLineParser(__doc__)
    parser.add_argument("--devices", type=positive, nargs="+", default=list(SIZES), metavar="COUNT")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    add_out(parser)
    given: argparse.Namespace = parser.parse_args(arguments)
    check_ready(given.out)
    with tempfile.TemporaryDirectory() as folder:
        rows = [simulate(size, Path(folder)) for size in given.devices]
    results = {"machine": processor(), "cost": COST, "knee": knee(rows), "rows": rows}
    print(json.dumps(results) if given.json else table(rows))
    publish(given.out, page, results, lambda path: draw(path, rows))
