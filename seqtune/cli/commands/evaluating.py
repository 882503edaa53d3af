"""The commands that compare and show what was measured: evaluate, replay and report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..application import AsJson, Force, Seed, Trained, answer, app
from ..arguments import evaluated, numbers, parts


@app.command(epilog="Example: seqtune evaluate --methods seqtune,trees,random --json; "
                    "seqtune evaluate miopen --data gfx906_60.db.bz2 --json")
def evaluate(
    sources: Annotated[list[Path] | None, typer.Argument(
        metavar="[DATA]", show_default=False,
        help="A data set.  [default: the shipped one]  Or a format (`miopen`), with its files in --data.")] = None,
    files: Annotated[list[Path] | None, typer.Option(
        "--data", metavar="PATH...", show_default=False,
        help="Files of the format, or folders of them; --device adds facts of a device.")] = None,
    checkpoint: Trained = None,
    methods: Annotated[str | None, typer.Option(
        "--methods", help="Methods to compare, separated by commas: seqtune, transformer, trees, fixed, nearest, "
                          "random, default, and on GPUs analytic.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Measure now instead of looking up.")] = False,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", help="With --live: the problems.")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="Evaluate on this device only; with --live, measure on it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on held-out problems by the share of the best known speed."""
    from ... import api
    from ..progress import note, spinner
    from ..tables import learning as tables

    form, paths = evaluated(sources or (), files or ())
    with spinner() as progress:
        result = api.evaluate(
            paths, form=form, checkpoint=checkpoint, methods=methods.split(",") if methods else None, live=live,
            problems=problems, device=device, progress=progress, note=note)
    answer(result.to_json()) if as_json else tables.evaluation(result.to_json()["rows"])


@app.command(epilog="Example: seqtune replay recorded/ --strategies portfolio,random --budgets 25,50 --json")
def replay(
    data: Annotated[Path, typer.Argument(
        help="A data set, `shipped`, or a folder or file of recorded spaces (Parquet with a spaces.json).")],
    strategies: Annotated[str, typer.Option(
        "--strategies", help="Strategies of `seqtune tune`, separated by commas.",
    )] = "portfolio,autotvm,droplet,random",
    budgets: Annotated[str, typer.Option(
        "--budgets", help="Numbers of evaluations; 0 is the first proposal, unmeasured.")] = "25,50,100,200",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Searches of each space by each strategy.")] = 30,
    transfer: Annotated[str | None, typer.Option(
        "--transfer", show_default=False,
        help="Give strategies other records: leave-device-out, leave-problem-out.  [default: none]")] = None,
    spaces: Annotated[str | None, typer.Option("--spaces", help="Only these spaces.", show_default=False)] = None,
    devices: Annotated[str | None, typer.Option("--devices", help="Only these devices.", show_default=False)] = None,
    complete: Annotated[bool, typer.Option("--complete", help="Only completely measured spaces.")] = False,
    held_out: Annotated[bool, typer.Option("--held-out", help="Only problems that the data set holds out.")] = False,
    batch: Annotated[int, typer.Option(
        "--batch", min=1, help="Number of configurations that a strategy proposes at once.")] = 1,
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(
        "--jobs", min=1, help="Number of processes.  [default: one for each core]", show_default=False)] = None,
    curves: Annotated[Path | None, typer.Option(
        "--curves", metavar="FIGURE", help="Draw the convergence curves: .svg, .png or .pdf.",
        show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the figure.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare strategies by simulated searches of recorded spaces."""
    from ... import api
    from ...api.inputs import check_free
    from ...figures.picture import save
    from ...figures.searches import check_drawable, convergence
    from ..progress import spinner
    from ..tables import learning as tables

    if curves is not None:
        check_free(curves, force)
        check_drawable(curves)
    with spinner() as progress:
        result = api.replay(
            data, strategies=parts(strategies), budgets=numbers("--budgets", budgets), repeats=repeats,
            transfer=transfer, spaces=parts(spaces), devices=parts(devices), complete=complete, held_out=held_out,
            batch=batch, seed=seed, jobs=jobs, progress=progress)
    if curves is not None:
        save(convergence(result.curves), curves, with_text=True)
    answer(result.to_json()) if as_json else tables.replayed(result)


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
    from ...reporting.report import report as write_report
    from ..progress import note, spinner
    from ..tables import console

    with spinner() as progress:
        written = write_report(data, out, device=device, checkpoint=checkpoint, seed=seed, force=force,
                               progress=progress, note=note)
    answer(written.to_json()) if as_json else console.fields(written.to_json())
