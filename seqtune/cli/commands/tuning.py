"""The commands that search by measuring: tune, and fleet."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from seqtune.tuner.strategies.table import STRATEGIES

from ...errors import InterruptedTuning, MisuseError, SeqtuneError
from ..application import PROBLEM_WORDS, AsJson, JournalPath, Seed, Words, answer, app
from ..arguments import several_problems


@app.command(context_settings=PROBLEM_WORDS, epilog=(
    "Example: seqtune tune --problems resnet18 --device llvm:0 --trials 100"))
def tune(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE",
        help="A named set (resnet18, ...), a CSV, a text file with a problem a line, or an ONNX file.")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", show_default=False,
        help="Device to measure on, or one of the data set.  [default: llvm:0, or the data set's only one]")] = None,
    strategy: Annotated[str, typer.Option(
        "--strategy", help=f"{', '.join(STRATEGIES)}.")] = "portfolio",
    trials: Annotated[int | None, typer.Option(
        "--trials", min=1, help="Maximum number of trials for each problem.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Time budget for each problem.")] = None,
    seed: Seed = 0,
    journal: JournalPath = None,
    retry_failed: Annotated[bool, typer.Option(
        "--retry-failed", help="Repeat measurements that timed out or crashed.")] = False,
    replay: Annotated[Path | None, typer.Option(
        "--replay", metavar="DATASET", help="Measure nothing: take the records of a data set, or `shipped`, instead.",
        show_default=False)] = None,
    fleet: Annotated[str | None, typer.Option(
        "--fleet", metavar="ADDRESS", show_default=False,
        help="Measure on a fleet: local:2, auto (the Ray cluster of this machine) or ray://HOST:PORT.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search by measuring. Every measurement is kept; run the same command again to resume."""
    from ... import api
    from ..progress import TuningProgressBar, note
    from ..tables import tuning as tables

    wanted = several_problems(words, problems)
    search = partial(api.tune, wanted, device, strategy=strategy, trials=trials, seconds=seconds, seed=seed,
                     journal=journal, retry_failed=retry_failed, replay=replay, note=note)
    stopped = None
    try:
        if fleet is not None:
            with tables.FleetView() as view:
                report = search(fleet=fleet, fleet_progress=view)
        else:
            with TuningProgressBar(seconds) as bar:
                report = search(progress=bar)
    except InterruptedTuning as stop:
        report, stopped = stop.report, stop
    if report is not None:
        answer(report.to_json()) if as_json else tables.tuned(report)
    if stopped is not None:
        raise stopped
    if report is not None and report.untuned:
        where = "`skipped` and `failures` say why" if as_json else "the lines above say why"
        count = len(report.problems)
        what = "the problem" if count == 1 else f"{len(report.untuned)} of {count} problems"
        raise SeqtuneError(f"{what} could not be tuned; {where}")


@app.command(epilog="Example: seqtune fleet status --fleet auto")
def fleet(
    action: Annotated[str, typer.Argument(metavar="status", help="What to show: status.")],
    address: Annotated[str, typer.Option(
        "--fleet", metavar="ADDRESS", help="auto (the Ray cluster of this machine) or ray://HOST:PORT.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Show a fleet: its nodes and what they offer, what every member does, and how far the run is."""
    from ...api.tuning.fleet import fleet_status
    from ..tables import tuning as tables

    if action != "status":
        raise MisuseError(f"no action {action!r:.40} of a fleet; there is `seqtune fleet status`")
    status = fleet_status(address)
    answer(status.to_json()) if as_json else tables.fleet_status(status)
