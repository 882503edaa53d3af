"""View of a fleet: its members as a table that changes on a terminal, else a line every few seconds."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from ..api.results import duration
from ..api.tuning.results import TuningReport
from .progress import QUIET_SECONDS
from .tables import tuning as tables

if TYPE_CHECKING:
    from seqtune.tuner.fleet.member_state import FleetProgress
    from seqtune.tuner.fleet.on_ray.status import FleetStatus


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
        self.last = line(state)
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


def line(run: dict[str, Any]) -> str:
    """One line about a run, of which `run` is the progress as JSON."""
    phases: dict[str, int] = {}
    for member in run["members"]:
        phases[member["phase"]] = phases.get(member["phase"], 0) + 1
    listed = ", ".join(f"{count} {phase}" for phase, count in phases.items()) or "no member yet"
    left = "" if run["seconds_left"] is None else f", {run['seconds_left']:.0f} s left"
    note = f"; {run['note']}" if run["note"] else ""
    return f"fleet: {run['done']}/{run['total']} trials, {run['rate']:.1f}/s{left}; members: {listed}{note}"


def tuned(report: TuningReport) -> None:
    """Print the results, then which members measured each."""
    tables.tuned(report)
    out = Console(highlight=False, soft_wrap=True)
    for result in report.results:
        if result.members:
            out.print(f"{result.problem.brief()} on {result.device}: measured by {', '.join(result.members)}",
                      markup=False)


def status(view: FleetStatus) -> None:
    """Print the nodes, the members and the run."""
    out = Console(highlight=False, soft_wrap=True)
    for node in view.nodes:
        offers = ", ".join(f"{count} {backend}" for backend, count in node["offers"].items()) or "no device"
        out.print(f"{node['host']} ({node['address']}): {offers}{'' if node['alive'] else ', gone'}", markup=False)
    if view.run is not None:
        out.print(_members(view.run["members"]))
        out.print(line(view.run), markup=False)
    elif view.members:
        names = [member["name"] + ("" if member["answers"] else " (does not answer)") for member in view.members]
        out.print(f"starting: {', '.join(names)}", markup=False)
    else:
        out.print("no run is under way")


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
