"""The commands that exchange data with other tools: import, export, export-c and serve-files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from seqtune.data.formats.table import HOLD_OUT, described

from ..application import AsJson, Force, answer, app
from ..arguments import parts
from ..format_command import ExportCommand, ServeCommand, with_options


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
    keys: Annotated[str | None, typer.Option(
        "--keys", metavar="NAME,...", show_default=False,
        help="For triton: the names of the autotuner's key arguments, in order. For kernel-tuner: parameters with one "
             "value, or entries of the caches, that are features of the problem.")] = None,
    hold_out: Annotated[list[str] | None, typer.Option(
        HOLD_OUT.flag, metavar=HOLD_OUT.metavar, show_default=False, help=HOLD_OUT.help)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read tuning data of other tools into a data set (Parquet)."""
    from ... import api
    from ..progress import note
    from ..tables import learning as tables

    report = api.import_data(source, paths, out, devices=device or (), keys=parts(keys),
                             hold_out=hold_out or (), force=force, note=note).to_json()
    answer(report) if as_json else tables.imported(report)


@app.command(cls=ExportCommand, epilog="Example: seqtune export --out records.parquet")
@with_options("write")
def export(
    out: Annotated[Path, typer.Option("--out", help="The file to write, or the folder for a format of folders.")],
    form: Annotated[str, typer.Option("--format", metavar="FORMAT", help=f"{described('write')}.")] = "parquet",
    force: Force = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write records as a data set (Parquet), or records and configurations in the files of other tools."""
    from ... import api
    from ..tables import console

    report = api.export(out, form, force=force, **options).to_json()
    answer(report) if as_json else console.fields(report)


@app.command("export-c", epilog="Example: seqtune export-c --library llvm --out predictor.c")
def export_c(
    out: Annotated[Path, typer.Option("--out", help="The C file to write; its header is written beside it.")],
    checkpoint: Annotated[str | None, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
        help="What is written, with the kernels of --library alone.  [default: the library's, or the shipped one]",
    )] = None,
    data: Annotated[Path | None, typer.Option(
        "--data", show_default=False,
        help="A data set with held-out problems, on which the code is compared with Python.  [default: shipped]",
    )] = None,
    prefix: Annotated[str | None, typer.Option(
        "--prefix", metavar="NAME", show_default=False,
        help="What the public names begin with, so that one program can link several files.  [default: seqtune]",
    )] = None,
    force: Force = False,
    as_json: AsJson = False,
    libraries: tuple[str, ...] = (),
) -> None:
    """Write a trained predictor as one C99 file with its header."""
    from ... import api
    from ..tables import console

    report = api.export_c(out, checkpoint=checkpoint, libraries=libraries, data=data, prefix=prefix,
                          force=force).to_json()
    answer(report) if as_json else console.fields(report)


@app.command("serve-files", cls=ServeCommand, epilog=(
    "Example: seqtune serve-files vllm --model-config config.json --device h200 --tp 8 --out tuned"))
@with_options("serve")
def serve_files(
    form: Annotated[str, typer.Argument(metavar="SERVER", help=f"Who reads the files. {described('serve')}.")],
    out: Annotated[Path, typer.Option("--out", help="The folder to write into.")],
    force: Force = False,
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Write tuned settings as the files that a server of language models reads."""
    from ... import api
    from ..tables import console

    report = api.serve_files(out, form, force=force, **options).to_json()
    answer(report) if as_json else console.fields(report)
