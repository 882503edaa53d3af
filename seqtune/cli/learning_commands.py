"""The commands that learn and judge, and collect data to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqtune.tuner.measuring.deadline import CALIBRATION

from ..api.collecting import TRIALS
from ..errors import InterruptedTuning
from .application import (
    PROBLEM_WORDS,
    AsJson,
    Checkpoint,
    DeviceName,
    Epochs,
    Extra,
    Force,
    JournalPath,
    Seed,
    Words,
    answer,
    app,
)
from .arguments import evaluated, numbers, parts, several_problems


@app.command(epilog="Example: seqtune train records.parquet --out my-checkpoint --seed 1")
def train(
    data: Annotated[Path, typer.Argument(
        help="A data set (Parquet, or a folder of such files), as `export` writes it, or `shipped`.")],
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder.")],
    epochs: Epochs = None,
    extra: Extra = None,
    refit: Annotated[bool, typer.Option(
        "--refit", help="Train again in the end, on the validation problems as well.")] = False,
    state: Annotated[Path | None, typer.Option(
        "--state", show_default=False,
        help="Folder that keeps an unfinished training; the same command resumes it.  [default: OUT.training, until "
             "the checkpoint is written]")] = None,
    end_now: Annotated[bool, typer.Option(
        "--end-now", help="End an unfinished training: write the checkpoint of what it has learned.")] = False,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on a data set; few problems are cross-validated. Ctrl-C keeps what was learned, to go on with.

    Data from which nothing can be learned are refused; --force trains all the same on times that look like noise.
    """
    from .. import api
    from . import progress, tables

    report = api.train(data, out, epochs=epochs, extra=extra, refit=refit, state=state, end_now=end_now, seed=seed,
                       force=force, progress=progress.epoch, say=progress.line)
    from seqtune.predictor.training.process_group import rank_here  # loads PyTorch, which `train` has found

    if rank_here() == 0:  # the other processes of torchrun say nothing
        answer(report.to_json()) if as_json else tables.trained(report.to_json())


@app.command(epilog="Example: seqtune retrain my-checkpoint new-device.parquet --out adapted")
def retrain(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint's folder, or `default`.")],
    data: Annotated[Path, typer.Argument(help="New records (Parquet).")],
    out: Annotated[Path, typer.Option("--out", help="The new checkpoint's folder.")],
    rehearse: Annotated[Path | None, typer.Option(
        "--rehearse", show_default=False,
        help="Old records that are learned again with the new ones.  [default: the shipped ones]")] = None,
    scratch: Annotated[bool, typer.Option(
        "--scratch/--no-scratch",
        help="Also train a model from scratch on the new records, for comparison: doubles the time.")] = False,
    minutes: Annotated[float | None, typer.Option(
        "--minutes", show_default=False,
        help="Limit for the whole retraining, which then stops with what it has learned.  [default: 4.5]")] = None,
    epochs: Epochs = None,
    extra: Extra = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Adapt a checkpoint to the devices of new records; others keep their answers. Reports before and after."""
    from .. import api
    from . import learning_tables, progress

    report = api.retrain(checkpoint, data, out, rehearse=rehearse, epochs=epochs, extra=extra, seed=seed,
                         scratch=scratch, force=force, progress=progress.epoch, minutes=minutes)
    answer(report.to_json()) if as_json else learning_tables.retrained(report.to_json())


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune calibrate --device llvm:0")
def calibrate(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="A named set (resnet18, ...), a CSV, or a text file.  [default: some problems of every kind]")] = None,
    device: DeviceName = "llvm:0",
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget.")] = CALIBRATION,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure where the model is unsure of this device; all later predictions for it are corrected at once."""
    from .. import api
    from . import progress

    wanted = several_problems(words, problems) if words or problems else None
    with progress.spinner() as say:
        result = api.calibrate(device, seconds=seconds, problems=wanted, checkpoint=checkpoint, journal=journal,
                               seed=seed, progress=lambda turn: say(turn.text))
    answer(result.to_json()) if as_json else print(result.conclusion())


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune collect --device llvm:0 --minutes 20")
def collect(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="A named set (resnet18, ...), a CSV, or a text file.  [default: some 440 of all kinds]")] = None,
    devices: Annotated[list[str] | None, typer.Option(
        "--device", show_default=False,
        help="Device to measure on. May be repeated.  [default: every CPU and OpenCL device]")] = None,
    minutes: Annotated[float | None, typer.Option(
        "--minutes", show_default=False,
        help="Time after which this call ends; the same command goes on.  [default: until all is measured]")] = None,
    out: Annotated[Path, typer.Option(
        "--out", metavar="FOLDER", help="Folder of the journal and of the data set, measured.parquet.",
    )] = Path("collected"),
    trials: Annotated[int, typer.Option(
        "--trials", min=1, help="Number of random configurations of each problem.")] = TRIALS,
    held_out: Annotated[bool, typer.Option(
        "--held-out", help="Also measure, nearly completely, the problems that judge models.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Measure nothing; say what remains.")] = False,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure data to train from on this machine, in slices: the same command goes on where the last one stopped."""
    from .. import api
    from . import progress

    wanted = several_problems(words, problems) if words or problems else None
    stopped: InterruptedTuning | None = None
    with progress.spinner() as say:
        try:
            collected = api.collect(
                out, wanted, devices or (), minutes=minutes, trials=trials, held_out=held_out, checkpoint=checkpoint,
                seed=seed, status=status, progress=lambda step: say(step.text))
        except InterruptedTuning as stop:
            collected, stopped = stop.report, stop
    answer(collected.to_json()) if as_json else print(collected.conclusion())
    if stopped is not None:
        raise stopped


@app.command(epilog="Example: seqtune evaluate --methods seqtune,trees,random --json; "
                    "seqtune evaluate miopen --data gfx906_60.db.bz2 --json")
def evaluate(
    sources: Annotated[list[Path] | None, typer.Argument(
        metavar="[DATA]", show_default=False,
        help="A data set.  [default: the shipped one]  Or a format (`miopen`), with its files in --data.")] = None,
    files: Annotated[list[Path] | None, typer.Option(
        "--data", metavar="PATH...", show_default=False,
        help="Files of the format, or folders of them; --device adds facts of a device.")] = None,
    by: Annotated[bool, typer.Option(
        "--by", help="For another tuner's choices: also by direction and data type.")] = False,
    checkpoint: Checkpoint = None,
    methods: Annotated[str | None, typer.Option(
        "--methods", help="Methods to compare, separated by commas: seqtune, transformer, trees, fixed, nearest, "
                          "random, default.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Measure now instead of looking up.")] = False,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", help="With --live: the problems.")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="Judge this device only; with --live, measure on it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on held-out problems by the share of the best known speed."""
    from .. import api
    from . import progress, tables

    form, paths = evaluated(sources or (), files or ())
    with progress.spinner() as say:
        result = api.evaluate(
            paths, form=form, checkpoint=checkpoint, methods=methods.split(",") if methods else None, live=live,
            problems=problems, device=device, by_feature=by, progress=say, warn=progress.note)
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
    from .. import api
    from ..api.inputs import check_free
    from ..reporting.curves import check_drawable, draw
    from . import progress, tables

    if curves is not None:
        check_free(curves, force)
        check_drawable(curves)
    with progress.spinner() as say:
        result = api.replay(
            data, strategies=parts(strategies), budgets=numbers("--budgets", budgets), repeats=repeats,
            transfer=transfer, spaces=parts(spaces), devices=parts(devices), complete=complete, held_out=held_out,
            batch=batch, seed=seed, jobs=jobs, progress=say)
    if curves is not None:
        draw(result.curves, curves)
    answer(result.to_json()) if as_json else tables.replayed(result)
