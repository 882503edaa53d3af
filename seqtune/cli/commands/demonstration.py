"""The command `demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from seqtune.tuner.measuring.deadline import SECONDS

from ..application import AsJson, Checkpoint, JournalPath, answer, app


@app.command(epilog="Example: seqtune demo")
def demo(
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of each verification.")] = SECONDS,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Predict and verify two ResNet-18 layers on every device found."""
    from ... import api
    from .. import progress
    from ..tables import predicting as tables

    with progress.spinner() as say:
        demonstration = api.demo(seconds, checkpoint=checkpoint, journal=journal, progress=say)
    answer(demonstration.to_json()) if as_json else tables.demo(demonstration)
