"""The commands that exchange data with other tools: import and export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqtune.data.formats.table import described

from .application import AsJson, Force, JournalPath, answer, app


@app.command("import", epilog="Example: seqtune import miopen gfx906_60.db.bz2 --out labels.parquet")
def import_(
    source: Annotated[str, typer.Argument(
        metavar="FORMAT", help=f"The files' format. {described('read')}.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", help="The Parquet file.")],
    device: Annotated[list[str] | None, typer.Option(
        "--device", metavar="'DEVICE [FACT=VALUE...]'", show_default=False,
        help="The device, where the files do not name it; MIOpen's GPUs also with facts: "
             "'gfx1201_32 compute_units=64'.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read tuning data of other tools into a data set (Parquet)."""
    from .. import api
    from . import progress, tables

    report = api.import_data(source, paths, out, devices=device or (), force=force, warn=progress.note).to_json()
    answer(report) if as_json else tables.imported(report)


@app.command(epilog="Example: seqtune export --out records.parquet")
def export(
    out: Annotated[Path, typer.Option("--out", help="The file to write.")],
    journal: JournalPath = None,
    form: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", help=f"{described('write')}.")] = "parquet",
    data: Annotated[Path | None, typer.Option(
        "--data", help="For MIOpen and T4: a data set with the configurations.", show_default=False)] = None,
    predictions: Annotated[Path | None, typer.Option(
        "--predictions", help="For MIOpen: lines that `predict --json` printed.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="For MIOpen: the GPU. For T4: the device of the trials.", show_default=False)] = None,
    checkpoint: Annotated[str, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME",
        help="For --predictions without --data: the checkpoint with the tables of MIOpen's kernels.")] = "miopen",
    problem: Annotated[str | None, typer.Option(
        "--problem", help="For T4: the problem of the trials, in quotes.", show_default=False)] = None,
    hold_out: Annotated[list[str] | None, typer.Option(
        "--hold-out", metavar="SET_OR_FILE", help="Problems that no model may learn from.", show_default=False)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write records as a data set (Parquet) or for other tuners (T4), or configurations for MIOpen."""
    from .. import api
    from . import tables

    report = api.export(out, form, journal=journal, data=data, predictions=predictions, device=device, problem=problem,
                        hold_out=hold_out or (), checkpoint=checkpoint, force=force).to_json()
    answer(report) if as_json else tables.report(report)
