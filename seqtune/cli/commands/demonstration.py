"""The command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqtune.tuner.measuring.deadline import SECONDS

from ..application import AsJson, Checkpoint, JournalPath, answer, app


@app.command(epilog="Example: seqtune demo")
def demo(
    out: Annotated[Path | None, typer.Option(
        "--out", metavar="FOLDER", show_default=False, help="A new folder for the kernel of the first layer.")] = None,
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of each verification.")] = SECONDS,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Predict and verify two ResNet-18 layers on every device found; with --out, build the first one."""
    from ... import api
    from ..progress import spinner
    from ..tables import predicting as tables

    with spinner() as progress:
        demonstration = api.demo(seconds, out=out, checkpoint=checkpoint, journal=journal, progress=progress)
    answer(demonstration.to_json()) if as_json else tables.demo(demonstration)
    if demonstration.built is not None and not as_json:
        tables.built(demonstration.built)
