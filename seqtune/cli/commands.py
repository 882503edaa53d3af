"""The commands that use a model: devices, kernels, predict, tune and demo.

A command parses its words, makes one call to `seqtune.api` and shows the answer. Answers go to stdout (tables, or one
JSON object with --json), progress to stderr. Nothing heavy is imported before a command runs, so `--help` is quick.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from seqtune.tuner.measuring.deadline import SECONDS
from seqtune.tuner.strategies.table import STRATEGIES

from ..errors import InterruptedTuning, MisuseError, SeqtuneError
from .application import PROBLEM_WORDS, AsJson, Checkpoint, DeviceName, Force, JournalPath, Seed, Words, answer, app
from .arguments import one_problem, refuse_options, several_problems

if TYPE_CHECKING:
    from ..api.tuning.results import TuningReport

SAMPLE = 200  # configurations of each family that are compiled


@app.command(epilog="Example: seqtune devices --json")
def devices(
    every: Annotated[bool, typer.Option(
        "--all", help="Also the GPUs that one can predict and compile for without having them.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the devices found with their main facts, and why other backends are unavailable."""
    from .. import api
    from . import tables

    result = api.devices(described=every)
    answer(result.to_json()) if as_json else tables.devices(result)


@app.command(context_settings=PROBLEM_WORDS, epilog="Example: seqtune kernels --compile cuda:h200 --sample 20")
def kernels(
    words: Annotated[list[str] | None, typer.Argument(
        metavar="FAMILY|FILE", show_default=False,
        help="Kernel families (triton.gemm), a library to check (library.toml), or a JSON file of kernels, as --json "
             "prints them. With --compile: families or a problem.")] = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="With a library to check: the problems.  [default: some within the bounds of the features]")] = None,
    compile_for: Annotated[str | None, typer.Option(
        "--compile", metavar="DEVICE", show_default=False,
        help="Compile random configurations for this GPU, present or not, and check the declarations.")] = None,
    sample: Annotated[int | None, typer.Option(
        "--sample", min=1, max=100_000, show_default=False,
        help=f"With --compile or --check-memory: configurations of each family.  [default: {SAMPLE}; 20]")] = None,
    seed: Seed = 0,
    memory: Annotated[bool, typer.Option(
        "--check-memory", help="With a library to check: run OpenCL kernels under Oclgrind, which finds races and "
                               "accesses beside buffers.")] = False,
    as_json: AsJson = False,
    libraries: tuple[str, ...] = (),
) -> None:
    """Show kernel families: the problems they solve, their parameters and constraints. Or check a library's file."""
    from .. import api
    from ..api.checking import is_library_file
    from . import kernel_tables, progress

    refuse_options(words or [])
    if (seed and compile_for is None) or (sample is not None and compile_for is None and not memory):
        raise MisuseError("--seed is for --compile; --sample is for --compile and --check-memory")
    if memory:
        if not words or compile_for is not None or problems is not None or not is_library_file(words):
            raise MisuseError("--check-memory is for a library to check: name its file")
        with progress.spinner() as say:
            checked = api.check_memory(words[0], sample, say)
        answer(checked.to_json()) if as_json else kernel_tables.memory(checked)
        raise typer.Exit(0 if checked.passed else 1)
    if words and compile_for is None and is_library_file(words):
        linted = api.lint_library(words[0], problems)
        answer(linted.to_json()) if as_json else kernel_tables.linted(linted)
        raise typer.Exit
    if problems is not None:
        raise MisuseError("--problems is for a library to check: name its file")
    if compile_for is not None:
        with progress.spinner() as say:
            report = api.compile_check(compile_for, words or (), SAMPLE if sample is None else sample, seed, say,
                                       libraries)
        answer(report.to_json()) if as_json else kernel_tables.compiled(report)
        raise typer.Exit(0 if report.passed else 1)
    result, listed = api.kernels(*(words or ())), () if words else api.libraries()
    if as_json:
        answer({"kernels": [api.kernel_json(kernel) for kernel in result],
                **({"libraries": [library.to_json() for library in listed]} if listed else {})})
    else:
        kernel_tables.libraries(listed)
        kernel_tables.kernels(result)


@app.command(context_settings=PROBLEM_WORDS, epilog=(
    "Example: seqtune predict conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --top 5 --verify"))
def predict(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="Predict many: a named set (resnet18, ...), a CSV, a text file with a problem a line, or - (stdin).",
    )] = None,
    device: DeviceName = "llvm:0",
    top: Annotated[int | None, typer.Option(
        "--top", min=1, max=1000, show_default=False,
        help="Number of configurations to propose.  [default: 5; 1 with --problems]")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Measure them (at most 50) and the default.")] = False,
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of --verify.")] = SECONDS,
    cache: Annotated[bool, typer.Option(
        "--cache/--no-cache", help="Answer from an earlier verification in the journal.")] = True,
    evidence: Annotated[bool, typer.Option(
        "--evidence/--no-evidence", help="Correct the proposals by the journal's measurements of this device.")] = True,
    min_confidence: Annotated[float | None, typer.Option(
        "--min-confidence", metavar="SHARE", show_default=False,
        help="Unless the first proposal is expected to reach this share of the best speed (0.95), answer with the safe "
             "default; with --verify, measure only then.")] = None,
    explain: Annotated[bool, typer.Option(
        "--explain", help="Also say why: constraints, costs of other values, known problems, facts.")] = False,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    out: Annotated[Path | None, typer.Option(
        "--out", metavar="FILE", show_default=False, help="With --problems: write the answers to a file.")] = None,
    form: Annotated[str | None, typer.Option(
        "--format", metavar="csv|jsonl", show_default=False,
        help="With --problems: a row a candidate, or a line of JSON a problem.  [default: as FILE's name, or jsonl]",
    )] = None,
    jobs: Annotated[int | None, typer.Option(
        "--jobs", min=1, max=1024, show_default=False,
        help="With --problems: number of processes.  [default: one for each processor]")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Predict the best configurations of a problem; with --verify, prove them by measuring."""
    from .. import api
    from . import progress, tables

    if problems is not None:
        from .bulk_predictions import predict_set

        if verify or as_json or explain or min_confidence is not None:
            raise MisuseError("--verify, --explain, --min-confidence and --json are for one problem; the answers to "
                              "--problems are lines")
        raise typer.Exit(predict_set(words, problems, device, top or 1, checkpoint, out, form, jobs, force, journal,
                                     evidence))
    if (out, form, jobs, force) != (None, None, None, False):
        raise MisuseError("--out, --format, --jobs and --force are for many problems (--problems SET_OR_FILE)")
    problem = one_problem(words)
    with progress.spinner() as say:
        prediction = api.predict(
            problem, device, top=top or 5, verify=verify, seconds=seconds, cache=cache, checkpoint=checkpoint,
            journal=journal, evidence=evidence, min_confidence=min_confidence, explain=explain, progress=say)
    answer(prediction.to_json()) if as_json else tables.prediction(prediction)
    if prediction.explanation is not None and not as_json:
        tables.explanation(prediction.explanation)


@app.command(context_settings=PROBLEM_WORDS, epilog=(
    "Example: seqtune tune --problems resnet18 --device llvm:0 --trials 100"))
def tune(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE",
        help="A named set (resnet18, ...), a CSV, or a text file: a problem a line.")] = None,
    device: Annotated[str | None, typer.Option(
        "--device", show_default=False,
        help="Device to measure on, or one of the data set.  [default: llvm:0, or the data set's only one]")] = None,
    strategy: Annotated[str, typer.Option(
        "--strategy", help=f"{', '.join(STRATEGIES)}.")] = "portfolio",
    trials: Annotated[int | None, typer.Option(
        "--trials", min=1, help="Maximum number of trials for each problem.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", help="Time budget for each problem.")] = None,
    total: Annotated[int | None, typer.Option(
        "--total", min=1, help="Total trials shared by all problems, spent where they help most.")] = None,
    seed: Seed = 0,
    journal: JournalPath = None,
    retry_failed: Annotated[bool, typer.Option(
        "--retry-failed", help="Repeat measurements that timed out or crashed.")] = False,
    replay: Annotated[Path | None, typer.Option(
        "--replay", metavar="DATASET", help="Measure nothing: take the records of a data set, or `shipped`, instead.",
        show_default=False)] = None,
    fleet: Annotated[str | None, typer.Option(
        "--fleet", metavar="ADDRESS", show_default=False,
        help="Measure on a fleet: local:2, auto (the Ray cluster of this machine) or ray://HOST:PORT.")] = None,
    as_json: AsJson = False,
) -> None:
    """Search by measuring. Every measurement is kept; run the same command again to resume."""
    from .. import api
    from . import progress, tables

    wanted = several_problems(words, problems)
    search = partial(api.tune, wanted, device, strategy=strategy, trials=trials, seconds=seconds, total=total,
                     seed=seed, journal=journal, retry_failed=retry_failed, replay=replay)
    show: Callable[[TuningReport], None] = tables.tuned
    stopped = None
    try:
        if fleet is not None:
            from . import fleet_view

            show = fleet_view.tuned
            with fleet_view.FleetView() as view:
                report = search(fleet=fleet, fleet_progress=view)
        else:
            with progress.TuningProgressBar(seconds) as bar:
                report = search(progress=bar)
    except InterruptedTuning as stop:
        report, stopped = stop.report, stop
    if report is not None:
        answer(report.to_json()) if as_json else show(report)
    if stopped is not None:
        raise stopped
    if report is not None and report.unprepared:
        where = "`skipped` says why" if as_json else "the lines above say why"
        raise SeqtuneError(f"{report.unprepared} of {len(report.results) + len(report.skipped)} problems could not be "
                           f"tuned; {where}")


@app.command(epilog="Example: seqtune fleet status --fleet auto")
def fleet(
    action: Annotated[str, typer.Argument(metavar="status", help="What to show: status.")],
    address: Annotated[str, typer.Option(
        "--fleet", metavar="ADDRESS", help="auto (the Ray cluster of this machine) or ray://HOST:PORT.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Show a fleet: its nodes and what they offer, what every member does, and how far the run is."""
    from ..api.tuning.fleet import fleet_status
    from . import fleet_view

    if action != "status":
        raise MisuseError(f"no action {action!r:.40} of a fleet; there is `seqtune fleet status`")
    status = fleet_status(address)
    answer(status.to_json()) if as_json else fleet_view.status(status)


@app.command(epilog="Example: seqtune demo")
def demo(
    seconds: Annotated[float, typer.Option("--seconds", help="Time budget of each verification.")] = SECONDS,
    checkpoint: Checkpoint = None,
    journal: JournalPath = None,
    as_json: AsJson = False,
) -> None:
    """Predict and verify two ResNet-18 layers on every device found."""
    from .. import api
    from . import progress, tables

    with progress.spinner() as say:
        shown = api.demo(seconds, checkpoint=checkpoint, journal=journal, progress=say)
    answer(shown.to_json()) if as_json else tables.demo(shown)
