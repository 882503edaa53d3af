"""The command `predict`: for one problem, with --problems for many, whose answers are lines, or for an ONNX file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from seqtune.tuner.measuring.deadline import SECONDS

from ...errors import FormatError, MisuseError
from ..application import PROBLEM_WORDS, AsJson, Checkpoint, DeviceName, Force, JournalPath, Words, answer, app
from ..arguments import input_sizes, numbered_problems, one_problem, refuse_options

if TYPE_CHECKING:
    from seqtune.kernels.problem_sets.parse import ProblemLine

    from ...api.bulk import BulkAnswer

ENDINGS = {"csv": ("CSV", ".csv"), "jsonl": ("a line of JSON a problem", ".jsonl", ".json")}  # meaning, endings
LARGEST_INPUT = 10_000_000  # characters that are read from stdin


@app.command(context_settings=PROBLEM_WORDS, epilog=(
    "Example: seqtune predict conv2d n=1 c=64 h=56 w=56 k=64 r=3 s=3 pad=1 --device llvm:0 --top 5 --verify"))
def predict(
    words: Words = None,
    problems: Annotated[str | None, typer.Option(
        "--problems", metavar="SET_OR_FILE", show_default=False,
        help="Predict many: a named set (resnet18, ...), a CSV, an ONNX file, a text file with a problem a line, or - "
             "(stdin).",
    )] = None,
    onnx: Annotated[Path | None, typer.Option(
        "--onnx", metavar="FILE", show_default=False,
        help="Predict every convolution and matrix product of an ONNX file.")] = None,
    inputs: Annotated[list[str] | None, typer.Option(
        "--input", metavar="NAME=SIZES", show_default=False,
        help="Sizes of an input that the ONNX file leaves open: x=1x3x224x224. May be repeated.")] = None,
    device: DeviceName = "llvm:0",
    top: Annotated[int | None, typer.Option(
        "--top", min=1, max=1000, show_default=False,
        help="Number of configurations to propose.  [default: 5; 1 for many problems without --verify]")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Measure them (at most 50) and the default.")] = False,
    seconds: Annotated[float | None, typer.Option(
        "--seconds", show_default=False,
        help=f"Time budget of --verify, for all problems together.  [default: {SECONDS:g} for each]")] = None,
    cache: Annotated[bool, typer.Option(
        "--cache/--no-cache", help="Answer from an earlier verification in the journal.")] = True,
    evidence: Annotated[bool, typer.Option(
        "--evidence/--no-evidence", help="Correct the proposals by the journal's measurements of this device.")] = True,
    min_confidence: Annotated[float | None, typer.Option(
        "--min-confidence", metavar="SHARE", show_default=False,
        help="Unless the first proposal is expected to reach this share of the best speed (0.95), answer with the "
             "better of it and the safe default; with --verify, measure only then.")] = None,
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
    from seqtune.tuner.processes import processors

    from ... import api
    from ..progress import spinner
    from ..tables import predicting as tables

    if onnx is None and inputs:
        raise MisuseError("--input gives sizes of an ONNX file's inputs (--onnx FILE)")
    if seconds is not None and not verify:
        raise MisuseError("--seconds is the budget of --verify")
    if (problems is not None or onnx is not None) and (explain or min_confidence is not None):
        raise MisuseError("--explain and --min-confidence are for one problem")
    if problems is not None:
        if onnx is not None:
            raise MisuseError("give either --problems SET_OR_FILE or --onnx FILE")
        if as_json:
            raise MisuseError("--json is for one problem or an ONNX file; the answers to --problems are lines")
        if verify and jobs is not None:
            raise MisuseError("--jobs is for predictions: one process verifies, since others would disturb its times")
        answered = partial(api.predict_many, device=device, top=top or (5 if verify else 1), checkpoint=checkpoint,
                           journal=journal, evidence=evidence, verify=verify, seconds=seconds, cache=cache,
                           jobs=1 if verify else jobs or processors())
        raise typer.Exit(_predict_set(words, problems, answered, out, form, force))
    if (out, form, jobs, force) != (None, None, None, False):
        raise MisuseError("--out, --format, --jobs and --force are for many problems (--problems SET_OR_FILE)")
    if onnx is not None:
        if words:
            refuse_options(words)
            raise MisuseError("give either a problem or an ONNX file (--onnx FILE)")
        with spinner() as progress:
            model = api.predict_onnx(
                onnx, device, top or (5 if verify else 1), inputs=input_sizes(inputs), verify=verify, seconds=seconds,
                cache=cache, checkpoint=checkpoint, journal=journal, evidence=evidence, progress=progress)
        answer(model.to_json()) if as_json else tables.onnx_model(model)
        raise typer.Exit(0 if model.rows and all(row.answer.candidates for row in model.rows) else 1)
    problem = one_problem(words)
    with spinner() as progress:
        prediction = api.predict(
            problem, device, top=top or 5, verify=verify,
            seconds=SECONDS if seconds is None else seconds, cache=cache, checkpoint=checkpoint,
            journal=journal, evidence=evidence, min_confidence=min_confidence, explain=explain, progress=progress)
    answer(prediction.to_json()) if as_json else tables.prediction(prediction)
    if prediction.explanation is not None and not as_json:
        tables.explanation(prediction.explanation)


def _predict_set(words: list[str] | None, problems: str, answered: Callable[..., Iterator[BulkAnswer]],
                 out: Path | None, form: str | None, force: bool) -> int:
    """Answer the problems of a set, a file or (-) stdin; return the exit code, which is 1 if one has no answer.

    Nothing is written before every problem is read and every argument checked. A file is written as a whole or not at
    all; on stdout each answer is a line as soon as it is known. Raises MisuseError and what `api.predict_many` raises.
    """
    from ...api.bulk import FORMATS
    from ...api.inputs import check_ending, check_free
    from ..progress import note, spinner

    if form is None:
        form = out.suffix[1:].lower() if out is not None and out.suffix[1:].lower() in FORMATS else "jsonl"
    if form not in FORMATS:
        raise MisuseError(f"--format {form!r:.40} is not one of {', '.join(FORMATS)}")
    if out is not None:
        check_ending(out, *ENDINGS[form])
        check_free(out, force)
    wanted = _from_stdin() if problems == "-" and not words else numbered_problems(words, problems)
    with spinner() as progress:
        missing, notes = _write(answered([line.problem for line in wanted], progress=progress), wanted, out, form)
    if notes:
        note(f"{len(notes)} of {len(wanted)} answers have a note, such as: {max(notes, key=len)}")
    if missing:
        note(f"no kernel solves {missing} of {len(wanted)} problems; the reason stands beside each")
    return 1 if missing else 0


def _from_stdin() -> list[ProblemLine]:
    """The problems of stdin, each with the number of its line."""
    from seqtune.kernels.problem_sets.parse import parse_lines

    text = sys.stdin.read(LARGEST_INPUT + 1)
    if len(text) > LARGEST_INPUT:
        raise FormatError(f"stdin has more than {LARGEST_INPUT // 1_000_000} MB; split it")
    lines = parse_lines("stdin", text)
    if not lines:
        raise FormatError("stdin holds no problem")
    return lines


def _write(answers: Iterable[BulkAnswer], lines: Sequence[ProblemLine], out: Path | None,
           form: str) -> tuple[int, list[str]]:
    """Write the answer to each line with its number and labels.

    Returns the number of answers without candidates, and the notes of those that have one.
    """
    from seqtune.kernels.files import replacing

    if out is None:
        return _write_lines(answers, lines, sys.stdout, form)
    with replacing(out) as scratch, scratch.open("w", encoding="utf-8", newline="") as file:
        return _write_lines(answers, lines, file, form)


def _write_lines(answers: Iterable[BulkAnswer], lines: Sequence[ProblemLine], file: TextIO,
                 form: str) -> tuple[int, list[str]]:
    from ...api.bulk import csv_header

    missing, notes = 0, list[str]()
    labels = dict.fromkeys(name for line in lines for name in line.labels)
    if form == "csv":
        file.write(csv_header(labels))
    for answered, line in zip(answers, lines, strict=True):
        if form == "csv":
            file.write(answered.rows(line.number, {name: line.labels.get(name, "") for name in labels}))
        else:
            file.write(answered.json_line(line.number, line.labels))
        file.flush()
        missing += not answered.candidates
        notes += [answered.note] if answered.note else []
    return missing, notes
