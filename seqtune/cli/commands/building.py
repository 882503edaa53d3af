"""The command `build`: kernels as a folder of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import MisuseError
from ..application import PROBLEM_WORDS, AsJson, Checkpoint, DeviceName, JournalPath, Words, answer, app
from ..arguments import several_problems


@app.command(context_settings=PROBLEM_WORDS, epilog=(
    "Example: seqtune build conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --out layer1"))
def build(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="Build many: a named set (resnet18, ...), a CSV, a text file with a problem a line, or an ONNX file.",
    )] = None,
    device: DeviceName = "llvm:0",
    proposal: Annotated[int | None, typer.Option(
        "--proposal", min=1, show_default=False,
        help="The row of `predict` to build.  [default: the winner in the journal, else the first]")] = None,
    out: Annotated[Path | None, typer.Option(
        "--out", metavar="FOLDER", show_default=False, help="The folder to write; it must be new or empty.")] = None,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Write a kernel with its best configuration to a folder of sources and programs that need no seqtune."""
    from ... import api
    from ..progress import spinner
    from ..tables import predicting as tables

    if out is None:
        raise MisuseError("name the folder to write (--out FOLDER)")
    wanted = several_problems(words, problems)
    with spinner() as progress:
        built = api.build_folder(wanted, device, out, proposal, checkpoint=checkpoint, journal=journal,
                                 progress=progress)
    answer(built.to_json()) if as_json else tables.built(built)
    raise typer.Exit(1 if built.left_out else 0)
