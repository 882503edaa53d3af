"""The command `doctor`."""

from __future__ import annotations

import typer

from ..application import AsJson, JournalPath, answer, app


@app.command(epilog="Example: seqtune doctor --json")
def doctor(journal: JournalPath = None, as_json: AsJson = False) -> None:
    """Say whether this machine measures well, and what to do. Exit code 1 if something is bad."""
    from ... import api
    from ..progress import spinner
    from ..tables import listing as tables

    with spinner() as progress:
        examination = api.doctor(journal, progress)
    answer(examination.to_json()) if as_json else tables.examination(examination)
    raise typer.Exit(0 if examination.passed else 1)
