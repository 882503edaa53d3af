"""The commands of `seqtune`. Each parses its words, makes one call to `seqtune.api` and shows the answer.

Answers go to stdout (tables, or one JSON object with --json), progress to stderr. Nothing heavy is imported before a
command runs, so `--help` is quick.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from seqtune.data.formats.table import described
from seqtune.tuner.measuring.budget import SECONDS
from seqtune.tuner.strategies.table import STRATEGIES

from .arguments import evaluated, numbers, one_problem, parts, several_problems

app = typer.Typer(
    name="seqtune", rich_markup_mode=None, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    help="Predicts the tuning parameters of compute kernels, and proves them by measuring.",
    epilog="Example: seqtune predict conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --verify")

# Problem words may be a MIOpenDriver line, whose options are not ours: what is unknown is handed to the problem.
_WORDS = {"ignore_unknown_options": True}

Words = Annotated[list[str] | None, typer.Argument(
    metavar="PROBLEM...", show_default=False,
    help="conv2d c=64 h=56 ...; gemm m=.. n=.. k=..; a MIOpenDriver line; or a quoted JSON object: "
         '{"type": "conv2d", "c": 64, "h": 56, "k": 64, "r": 3, "pad": 1}.')]
DeviceName = Annotated[str, typer.Option("--device", help="Where the kernel will run (`seqtune devices`).")]
AsJson = Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")]
Checkpoint = Annotated[str | None, typer.Option(
    "--checkpoint", metavar="FOLDER_OR_NAME", show_default=False,
    help="A trained checkpoint.  [default: the shipped one for the device or the data]")]
JournalPath = Annotated[Path | None, typer.Option(
    "--journal", help="The journal file.  [default: in the user's data folder]", show_default=False)]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1, help="At most so many.", show_default=False)]
Extra = Annotated[int | None, typer.Option(
    "--extra", min=0, help="More problems that boosted trees label, to learn from.", show_default=False)]
Seed = Annotated[int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seeds what is random.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what --out names.")]


def _version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        print(f"seqtune {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it and exit.")]
    = False,
) -> None:
    pass


@app.command(epilog="Example: seqtune devices --json")
def devices(as_json: AsJson = False) -> None:
    """List the devices found, with the facts that matter, and why a backend is unavailable."""
    from .. import api
    from . import tables as show

    found = api.devices()
    _answer(found.to_json()) if as_json else show.devices(found)


@app.command(epilog="Example: seqtune kernels --json")
def kernels(
    declared: Annotated[Path | None, typer.Argument(
        metavar="FILE", show_default=False, help="Those that a JSON file declares, as --json prints them.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the kernel families: what they solve, their parameters and constraints."""
    from .. import api
    from . import tables as show

    found = api.kernels(declared)
    _answer({"kernels": [api.kernel_json(kernel) for kernel in found]}) if as_json else show.kernels(found)


@app.command(context_settings=_WORDS, epilog=(
    "Example: seqtune predict conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --top 5 --verify"))
def predict(
    words: Words = None,
    device: DeviceName = "llvm:0",
    top: Annotated[int, typer.Option("--top", min=1, max=1000, help="How many configurations to propose.")] = 5,
    verify: Annotated[bool, typer.Option("--verify", help="Measure them, at most 50, beside the default.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of --verify.")] = SECONDS,
    cache: Annotated[bool, typer.Option(
        "--cache/--no-cache", help="Answer from the journal what was verified before.")] = True,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Propose the best configurations for a problem; with --verify, prove them by measuring."""
    from .. import api
    from . import progress
    from . import tables as show

    problem = one_problem(words)
    with progress.spinner() as say:
        answer = api.predict(
            problem, device, top=top, verify=verify, seconds=seconds, cache=cache, checkpoint=checkpoint,
            journal=journal, progress=say)
    _answer(answer.to_json()) if as_json else show.prediction(answer)


@app.command(context_settings=_WORDS, epilog=(
    "Example: seqtune tune --problems resnet18 --device llvm:0 --trials 100"))
def tune(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE",
        help="A named set (resnet18, ...), a CSV, or a text file: a problem a line.")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="Where to measure, or a data set's device.  [default: llvm:0, or the data set's only one]",
        show_default=False)] = None,
    strategy: Annotated[str, typer.Option(
        "--strategy", help=f"{', '.join(STRATEGIES)}.")] = "portfolio",
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="At most so many per problem.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="At most so long per problem.")] = None,
    total: Annotated[int | None, typer.Option(
        "--total", min=1, help="So many trials for all problems together, where they serve most.")] = None,
    seed: Seed = 0,
    journal: JournalPath = None,
    retry_failed: Annotated[bool, typer.Option(
        "--retry-failed", help="Measure again what timed out or crashed before.")] = False,
    replay: Annotated[Path | None, typer.Option(
        "--replay", metavar="DATASET", help="Measure nothing: answer from a data set, or `shipped`.",
        show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Search by measuring. Every measurement is kept; run the same command again to go on."""
    from .. import api
    from . import progress
    from . import tables as show

    wanted = several_problems(words, problems)
    with progress.TuningProgressBar(seconds) as told:
        report = api.tune(wanted, device, strategy=strategy, trials=trials, seconds=seconds, total=total,
                          seed=seed, journal=journal, retry_failed=retry_failed, replay=replay, progress=told)
    _answer(report.to_json()) if as_json else show.tuned(report)


@app.command(epilog="Example: seqtune train records.parquet --out my-checkpoint --seed 1")
def train(
    data: Annotated[Path, typer.Argument(help="A data set (Parquet), as `export` writes it, or `shipped`.")],
    out: Annotated[Path, typer.Option("--out", help="The checkpoint's folder.")],
    epochs: Epochs = None,
    extra: Extra = None,
    refit: Annotated[bool, typer.Option("--refit", help="Then train again on the validation problems, too.")] = False,
    state: Annotated[Path | None, typer.Option(
        "--state", help="A folder that keeps an unfinished training, to resume it.", show_default=False)] = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Train a translator on measurements. Ctrl-C keeps the best so far."""
    from .. import api
    from . import progress
    from . import tables as show

    report = api.train(data, out, epochs=epochs, extra=extra, refit=refit, state=state, seed=seed, force=force,
                       progress=progress.epoch, say=progress.line)
    _answer(report.to_json()) if as_json else show.report(report.to_json())


@app.command(epilog="Example: seqtune retrain my-checkpoint new-device.parquet --out adapted")
def retrain(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint's folder, or `default`.")],
    data: Annotated[Path, typer.Argument(help="New records (Parquet).")],
    out: Annotated[Path, typer.Option("--out", help="The new checkpoint's folder.")],
    rehearse: Annotated[Path | None, typer.Option(
        "--rehearse", help="Old records not to forget.  [default: the shipped ones]", show_default=False)] = None,
    scratch: Annotated[bool, typer.Option(
        "--scratch/--no-scratch", help="Also train from scratch on the new records, to compare.")] = True,
    epochs: Epochs = None,
    extra: Extra = None,
    seed: Seed = 0,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Adapt a checkpoint to new records without forgetting the old ones; reports before and after."""
    from .. import api
    from . import progress
    from . import tables as show

    report = api.retrain(checkpoint, data, out, rehearse=rehearse, epochs=epochs, extra=extra, seed=seed,
                         scratch=scratch, force=force, progress=progress.epoch)
    _answer(report.to_json()) if as_json else show.report(report.to_json())


@app.command(epilog="Example: seqtune evaluate --methods seq2seq,random,default --json; "
                    "seqtune evaluate miopen --data gfx906_60.db.bz2 --json")
def evaluate(
    sources: Annotated[list[Path] | None, typer.Argument(
        metavar="[DATA]", show_default=False,
        help="A data set.  [default: the one shipped]  Or a format (`miopen`), with its files in --data.")] = None,
    files: Annotated[list[Path] | None, typer.Option(
        "--data", metavar="PATH...", show_default=False,
        help="Files of the format, or folders of them; a device's facts by --device.")] = None,
    baselines: Annotated[bool, typer.Option(
        "--baselines", help="Another tuner's choices: also fit and judge the baselines, which takes minutes.")] = False,
    by: Annotated[bool, typer.Option("--by", help="Another tuner's choices: also by direction and data type.")] = False,
    checkpoint: Checkpoint = None,
    methods: Annotated[str | None, typer.Option("--methods", help="Some of them, with commas between.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Measure on the spot instead of looking up.")] = False,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", help="With --live: the problems.")] = None,
    device: Annotated[str | None, typer.Option("--device", help="With --live: where.  Else: only this one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare methods on held-out problems: the share of the best known speed that each reaches."""
    from .. import api
    from . import progress
    from . import tables as show

    form, paths = evaluated(sources or (), files or ())
    with progress.spinner() as say:
        found = api.evaluate(
            paths, form=form, checkpoint=checkpoint, methods=methods.split(",") if methods else None, live=live,
            problems=problems, device=device, baselines=baselines, by_feature=by, progress=say, warn=progress.note)
    _answer(found.to_json()) if as_json else show.evaluation(found.to_json()["rows"])


@app.command(epilog="Example: seqtune replay recorded/ --strategies portfolio,random --budgets 25,50 --json")
def replay(
    data: Annotated[Path, typer.Argument(
        help="A data set, `shipped`, or a folder or file of recorded spaces (Parquet with a spaces.json).")],
    strategies: Annotated[str, typer.Option(
        "--strategies", help="With commas between; those of `seqtune tune`.")] = "portfolio,autotvm,droplet,random",
    budgets: Annotated[str, typer.Option(
        "--budgets", help="Evaluations; 0 is the first proposal, unmeasured.")] = "25,50,100,200",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Searches of each space by each strategy.")] = 30,
    transfer: Annotated[str | None, typer.Option(
        "--transfer", show_default=False,
        help="What strategies may learn from: leave-device-out, leave-problem-out.  [default: nothing]")] = None,
    spaces: Annotated[str | None, typer.Option("--spaces", help="Only these.", show_default=False)] = None,
    devices: Annotated[str | None, typer.Option("--devices", help="Only these.", show_default=False)] = None,
    complete: Annotated[bool, typer.Option("--complete", help="Only spaces of which all was measured.")] = False,
    held_out: Annotated[bool, typer.Option("--held-out", help="Only problems that a data set holds out.")] = False,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Configurations asked for at once.")] = 1,
    seed: Seed = 0,
    jobs: Annotated[int | None, typer.Option(
        "--jobs", min=1, help="Processes.  [default: one per core]", show_default=False)] = None,
    curves: Annotated[Path | None, typer.Option(
        "--curves", metavar="FIGURE", help="Draw the convergence curves: .svg, .png or .pdf.",
        show_default=False)] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the figure.")] = False,
    as_json: AsJson = False,
) -> None:
    """Judge strategies on recorded spaces, by simulated searches."""
    from .. import strategy_replay as searches
    from ..figures.curves import check_drawable, draw
    from ..inputs import check_free
    from . import progress
    from . import tables as show

    if curves is not None:
        check_free(curves, force)
        check_drawable(curves)
    with progress.spinner() as say:
        found = searches.replay(
            data, strategies=parts(strategies), budgets=numbers("--budgets", budgets), repeats=repeats,
            transfer=transfer, spaces=parts(spaces), devices=parts(devices), complete=complete, held_out=held_out,
            batch=batch, seed=seed, jobs=jobs, progress=say)
    if curves is not None:
        draw(found.curves, curves)
    _answer(found.to_json()) if as_json else show.replayed(found)


@app.command("import", epilog="Example: seqtune import miopen gfx906_60.db.bz2 --out labels.parquet")
def import_(
    source: Annotated[str, typer.Argument(
        metavar="FORMAT", help=f"The files' format. {described('read')}.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of them.")],
    out: Annotated[Path, typer.Option("--out", help="The Parquet file.")],
    device: Annotated[list[str] | None, typer.Option(
        "--device", metavar="'DEVICE [FACT=VALUE...]'", show_default=False,
        help="The device, where the files do not name it; of MIOpen's GPUs also their facts: "
             "'gfx1201_32 compute_units=64'.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Read foreign tuning data into a data set (Parquet)."""
    from .. import api
    from . import progress
    from . import tables as show

    report = api.import_data(source, paths, out, devices=device or (), force=force, warn=progress.note).to_json()
    _answer(report) if as_json else show.imported(report)


@app.command(epilog="Example: seqtune export --out records.parquet")
def export(
    out: Annotated[Path, typer.Option("--out", help="The Parquet file, or what --format makes.")],
    journal: JournalPath = None,
    form: Annotated[str, typer.Option(
        "--format", metavar="FORMAT", help=f"{described('write')}.")] = "parquet",
    data: Annotated[Path | None, typer.Option(
        "--data", help="For MIOpen and T4: a data set with the configurations.", show_default=False)] = None,
    predictions: Annotated[Path | None, typer.Option(
        "--predictions", help="For MIOpen: what `predict --json` printed, a line each.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option(
        "--device", help="For MIOpen: the GPU. For T4: whose trials.", show_default=False)] = None,
    checkpoint: Annotated[str, typer.Option(
        "--checkpoint", metavar="FOLDER_OR_NAME",
        help="For --predictions without --data: whose tables of MIOpen's kernels they mean.")] = "miopen",
    problem: Annotated[str | None, typer.Option(
        "--problem", help="For T4: whose trials, in quotes.", show_default=False)] = None,
    hold_out: Annotated[list[str] | None, typer.Option(
        "--hold-out", metavar="SET_OR_FILE", help="Problems that no model may learn from.", show_default=False)] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a journal's records as a data set (Parquet) or for other tuners (T4), or configurations for MIOpen."""
    from .. import api
    from . import tables as show

    report = api.export(out, form, journal=journal, data=data, predictions=predictions, device=device, problem=problem,
                        hold_out=hold_out or (), checkpoint=checkpoint, force=force).to_json()
    _answer(report) if as_json else show.report(report)


@app.command(epilog="Example: seqtune demo")
def demo(
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of each verification.")] = SECONDS,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Predict and verify two ResNet-18 layers on every device found."""
    from .. import api
    from . import progress
    from . import tables as show

    with progress.spinner() as say:
        shown = api.demo(seconds, checkpoint=checkpoint, journal=journal, progress=say)
    _answer(shown.to_json()) if as_json else show.demo(shown)


def _answer(found: Any) -> None:
    json.dump(found, sys.stdout, allow_nan=False)
    print()
