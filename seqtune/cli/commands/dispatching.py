"""The command `dispatch`: a few kernels for many shapes, with the rule that picks one and what it promises."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import typer

from ...errors import MisuseError
from ..application import AsJson, Checkpoint, JournalPath, Seed, answer, app

AUTO: Literal["auto"] = "auto"


@app.command(epilog="Example: seqtune dispatch gemm --shapes shapes.csv --kernels auto --minutes 20 --out dispatch")
def dispatch(
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="gemm, conv2d, or one of a library.")],
    shapes: Annotated[list[str] | None, typer.Option(
        "--shapes", metavar="SOURCE", show_default=False,
        help="What the kernels shall serve: a CSV (with a column weight, share or count), a log with a problem a line, "
             "an ONNX file, aiter's untuned CSV, a named set, or ranges (m=1..4096). May be repeated.  [default: those "
             "of --data]")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", show_default=False,
        help="Device that will run the kernels (see `seqtune devices`).  [default: llvm:0, or that of --data]")] = None,
    kernels: Annotated[str, typer.Option(
        "--kernels", metavar="N|auto",
        help="Number of kernels; auto: until further ones gain at most 0.5 % each.")] = AUTO,
    most_bytes: Annotated[int | None, typer.Option(
        "--bytes", metavar="N", min=1, show_default=False,
        help="Instead of --kernels: as many, up to 10, as take at most N bytes when compiled.")] = None,
    goal: Annotated[str | None, typer.Option(
        "--goal", metavar="mean|worst|within", show_default=False,
        help="Mean speed, the mean of the slowest tenth, or the share of shapes within --slowdown.  [default: mean; "
             "within if --slowdown is given]")] = None,
    slowdown: Annotated[float | None, typer.Option(
        "--slowdown", metavar="FACTOR", show_default=False,
        help="As many shapes as possible shall be at most this much slower than their best (1.10).")] = None,
    domain: Annotated[list[str] | None, typer.Option(
        "--domain", metavar="RANGE", show_default=False,
        help="Which shapes the files promise to serve: m=1..4096, dtype=fp16,bf16, or a condition (m % 8 == 0). May be "
             "repeated.  [default: the ranges of the shapes]")] = None,
    minutes: Annotated[float | None, typer.Option(
        "--minutes", help="Time for the call, at least 0.5.  [default: no limit]", show_default=False)] = None,
    data: Annotated[Path | None, typer.Option(
        "--data", metavar="DATASET", show_default=False,
        help="Measure nothing: take the times of a data set instead.")] = None,
    fresh: Annotated[int | None, typer.Option(
        "--fresh", min=0, show_default=False,
        help="Number of fresh shapes that are measured for the bound.  [default: 100]")] = None,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    out: Annotated[str | None, typer.Option(
        "--out", metavar="FOLDER", show_default=False,
        help="The folder for the files and the page; files of anybody else are not replaced.  [required]")] = None,
    prefix: Annotated[str | None, typer.Option(
        "--prefix", metavar="NAME", show_default=False,
        help="What the files' names and the public names in C begin with, so that one program can have several "
             "dispatchers.  [default: dispatch]")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Choose a few kernels for many shapes, and write the rule that picks one of them for any shape."""
    from ... import api
    from ...api.dispatching.run import FRESH, PREFIX
    from ...api.dispatching.shapes import read_shapes
    from ..progress import line, note
    from ..tables import dispatching as tables

    if not out:
        raise MisuseError("name the folder to write (--out FOLDER)")
    if not shapes and data is None:
        raise MisuseError("name the shapes (--shapes FILE, SET or m=1..4096), or a data set that has some (--data)")
    if kernels != AUTO and not re.fullmatch("0*[1-9][0-9]{0,8}", kernels, re.ASCII):
        raise MisuseError(f"--kernels {kernels!r:.40} is neither a number of kernels nor auto")
    wanted, ranges = read_shapes(operation, shapes, seed, note) if shapes else (None, ())
    result = api.dispatch(
        operation, wanted, device, kernels=AUTO if kernels == AUTO else int(kernels),
        bytes=most_bytes, goal=goal or ("mean" if slowdown is None else "within"), slowdown=slowdown, minutes=minutes,
        domain=domain or ranges, data=data, checkpoint=checkpoint, journal=journal, out=out,
        prefix=PREFIX if prefix is None else prefix, fresh=FRESH if fresh is None else fresh, seed=seed,
        progress=line, note=note)
    answer(result.to_json()) if as_json else tables.dispatched(result)
