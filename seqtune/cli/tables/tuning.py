"""The table of a tuning run, and the view of a fleet: its members as a table that changes on a terminal, else a line.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from ...api.results import duration
from ..progress import QUIET_SECONDS
from .console import out, show, table_of

if TYPE_CHECKING:
    from seqtune.tuner.fleet.member_state import FleetProgress
    from seqtune.tuner.fleet.on_ray.status import FleetStatus

    from ...api.tuning.results import TuningReport


def tuned(outcome: TuningReport) -> None:
    """Print a line for each problem, then which members of a fleet measured each."""
    table = table_of("problem", "trials", "new", "failed", "default", "best", "sure", "configuration",
                   right=("trials", "new", "failed", "default", "best", "sure"))
    for result in outcome.results:
        best = result.best
        table.add_row(result.problem.brief(), str(result.trials), str(result.measured), str(result.failed),
                      duration(result.default_seconds), duration(result.best_seconds),
                      "-" if result.confidence is None else f"{result.confidence:.0%}",
                      "-" if best is None else f"{best.kernel} {best.brief()}")
    if outcome.results:
        show(table)
    for result in outcome.results:
        for note in result.notes():
            out.say(f"{result.problem.brief()}: {note}")
    for problem, reason in outcome.skipped:
        out.say(f"{problem.brief()}: not tuned: {reason}")
    for note in outcome.notes():
        out.say(note)
    source = f"journal: {outcome.journal}" if outcome.replayed is None else (
        f"replayed from {outcome.replayed}, {outcome.device.name}: nothing was measured, and no journal is kept")
    out.say(source)
    if outcome.interrupted:
        out.say("stopped: the times are those of trials, and no finals were held for what was not finished")
    elif outcome.replayed is None and any(result.best is not None for result in outcome.results):
        out.print("times are those of the finals, where the fastest and the default are measured again, interleaved, "
                   "because the least of many trials is too low")
        if any(result.confidence is not None for result in outcome.results):
            out.print("sure: confidence that the best is faster than the second in the finals (signed-rank test; near "
                      "50 % they are alike); it says nothing of the default, nor of what was not tried")
    for result in outcome.results:
        if result.members:
            out.say(f"{result.problem.brief()} on {result.device}: measured by {', '.join(result.members)}")


class FleetView:
    """Shows the progress of a run on standard error."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.live = Live(console=self.console, transient=True) if self.console.is_terminal else None
        self.printed = time.monotonic()
        self.last = ""
        self.printed_states: dict[str, str] = {}  # name of a member -> its state, as printed last

    def __enter__(self) -> FleetView:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()
        if self.last:
            self.console.print(self.last, markup=False, soft_wrap=True)

    def __call__(self, progress: FleetProgress) -> None:
        state: dict[str, Any] = progress.to_json()
        self.last = run_line(state)
        for member in state["members"]:
            words = f"{member['phase']}{member['reason'] and ': '}{member['reason']}"
            if member["reason"] and self.printed_states.get(member["name"]) != words:
                self.console.print(f"{member['name']}: {words}", markup=False, soft_wrap=True)
            self.printed_states[member["name"]] = words
        if self.live is not None:
            self.live.update(Group(_members(state["members"]), self.last))
        elif time.monotonic() - self.printed > QUIET_SECONDS:
            self.printed = time.monotonic()
            self.console.print(self.last, markup=False, soft_wrap=True)


def run_line(run: dict[str, Any]) -> str:
    """One line about a run, of which `run` is the progress as JSON."""
    phases = Counter(member["phase"] for member in run["members"])
    listed = ", ".join(f"{count} {phase}" for phase, count in phases.items()) or "no member yet"
    left = "" if run["seconds_left"] is None else f", {run['seconds_left']:.0f} s left"
    note = f"; {run['note']}" if run["note"] else ""
    return f"fleet: {run['done']}/{run['total']} trials, {run['rate']:.1f}/s{left}; members: {listed}{note}"


def fleet_status(view: FleetStatus) -> None:
    """Print the nodes, the members and the run."""
    for node in view.nodes:
        offers = ", ".join(f"{count} {backend}" for backend, count in node["offers"].items()) or "no device"
        out.say(f"{node['host']} ({node['address']}): {offers}{'' if node['alive'] else ', gone'}")
    if view.run is not None:
        out.print(_members(view.run["members"]))
        out.say(run_line(view.run))
    elif view.members:
        names = [member["name"] + ("" if member["answers"] else " (does not answer)") for member in view.members]
        out.say(f"starting: {', '.join(names)}")
    else:
        out.say("no run is under way")


def _members(members: list[dict[str, Any]]) -> Table:
    """A row for each member of a run."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("member", "device", "state", "rate", "done", "failed", "best", "reason"):
        table.add_column(column, no_wrap=column != "reason")
    for member in members:
        best = duration(math.inf if member["best"] is None else member["best"])
        table.add_row(member["name"], member["device"], member["phase"], f"{member['rate']:.1f}/s", str(member["done"]),
                      str(member["failures"]), best, member["reason"])
    return table
