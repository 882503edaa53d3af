"""The commands that learn, and those that measure data to learn from: train, retrain, calibrate and collect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqtune.tuner.measuring.deadline import CALIBRATION

from ...api.collecting import TRIALS
from ...errors import InterruptedTuning, MisuseError
from ..application import (
    PROBLEM_WORDS,
    AsJson,
    Checkpoint,
    DeviceName,
    Epochs,
    Extra,
    Force,
    JournalPath,
    Seed,
    Trained,
    Words,
    answer,
    app,
)
from ..arguments import several_problems


@app.command(epilog="Example: seqtune train records.parquet --out my-checkpoint --seed 1")
def train(
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder.")],
    data: Annotated[Path | None, typer.Argument(
        help="A data set (Parquet, or a folder of such files), as `export` writes it, or `shipped`.",
        show_default=False)] = None,
    recipe: Annotated[Path | None, typer.Option(
        "--recipe", metavar="FILE_OR_NAME", show_default=False,
        help="A file with all options and the data set, or the name of a shipped checkpoint (`gpu` and `miopen` need "
             "DATA): how it was trained.")] = None,
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
    from ... import api
    from ..progress import line
    from ..tables import learning as tables

    if data is None and recipe is None:
        raise MisuseError("name a data set (a file, a folder, or `shipped`), or a recipe (--recipe)")
    report = api.train(data, out, recipe=recipe, epochs=epochs, extra=extra, refit=refit, state=state, end_now=end_now,
                       seed=seed, force=force, progress=line)
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
        help="Limit for the whole retraining, which then stops with what it has learned. Give at least 3: reading and "
             "evaluating the old records takes a minute or two, and if the time is over before the training begins, "
             "nothing is written.  [default: 4.5]")] = None,
    epochs: Epochs = None,
    extra: Extra = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Adapt a checkpoint to the devices of new records; others keep their answers. Reports before and after.

    Ctrl-C and SIGTERM end the training, and write the checkpoint of the epochs that are complete.
    """
    from ... import api
    from ..progress import line
    from ..tables import learning as tables

    report = api.retrain(checkpoint, data, out, rehearse=rehearse, epochs=epochs, extra=extra, seed=seed,
                         scratch=scratch, force=force, progress=line, minutes=minutes)
    answer(report.to_json()) if as_json else tables.retrained(report.to_json())


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune calibrate --device llvm:0")
def calibrate(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="A named set (resnet18, ...), a CSV, a text file or an ONNX file.  [default: some problems of every kind]",
    )] = None,
    device: DeviceName = "llvm:0",
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget.")] = CALIBRATION,
    checkpoint: Trained = None,
    journal: JournalPath = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure where the model is unsure of this device; all later predictions for it are corrected at once."""
    from ... import api
    from ..progress import spinner

    wanted = several_problems(words, problems) if words or problems else None
    with spinner() as progress:
        result = api.calibrate(device, seconds=seconds, problems=wanted, checkpoint=checkpoint, journal=journal,
                               seed=seed, progress=lambda turn: progress(turn.text))
    answer(result.to_json()) if as_json else print(result.conclusion())


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune collect --device llvm:0 --minutes 20")
def collect(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="A named set (resnet18, ...), a CSV, a text file or an ONNX file.  [default: some 440 of all kinds]",
    )] = None,
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
        "--held-out", help="Also measure, nearly completely, the problems that models are evaluated on.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Measure nothing; say what remains.")] = False,
    checkpoint: Checkpoint = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure data to train from on this machine; the same command goes on where the last one stopped."""
    from ... import api
    from ..progress import line, note, spinner

    wanted = several_problems(words, problems) if words or problems else None
    stopped: InterruptedTuning | None = None
    with spinner() as progress:
        try:
            collected = api.collect(
                out, wanted, devices or (), minutes=minutes, trials=trials, held_out=held_out, checkpoint=checkpoint,
                seed=seed, status=status, note=note,
                progress=lambda step: line(step) if isinstance(step, str) else progress(step.text))
        except InterruptedTuning as stop:
            collected, stopped = stop.report, stop
    answer(collected.to_json()) if as_json else print(collected.conclusion())
    if stopped is not None:
        raise stopped
