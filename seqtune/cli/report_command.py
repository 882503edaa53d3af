"""The command that writes a report: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .application import AsJson, Force, Seed, answer, app


@app.command(epilog="Example: seqtune report journal.sqlite --out report.html --checkpoint default")
def report(
    data: Annotated[Path, typer.Argument(
        metavar="JOURNAL_OR_DATA", help="A journal or a data set; `shipped`: the shipped ones.")],
    out: Annotated[Path, typer.Option("--out", help="The HTML file.")],
    device: Annotated[str | None, typer.Option(
        "--device", help="Only the records of this device.  [default: all]", show_default=False)] = None,
    checkpoint: Annotated[str | None, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
        help="A trained checkpoint, or `analytic`, whose predictions are compared with the measurements.")] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a report on measurements: one HTML file, which a browser shows without a network."""
    from ..reporting.report import report as write_report
    from . import progress, tables

    with progress.spinner() as say:
        written = write_report(data, out, device=device, checkpoint=checkpoint, seed=seed, force=force, progress=say,
                               warn=progress.note)
    answer(written.to_json()) if as_json else tables.report(written.to_json())
