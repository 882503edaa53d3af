"""The answers to `seqtune predict --problems`: read all problems, then write one answer after the other."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from ..errors import FormatError, MisuseError
from .arguments import several_problems

if TYPE_CHECKING:
    from ..api.bulk import BulkAnswer

ENDINGS = {"csv": ("CSV", ".csv"), "jsonl": ("a line of JSON a problem", ".jsonl", ".json")}  # meaning, endings
LARGEST_INPUT = 10_000_000  # characters that are read from stdin


def predict_set(words: list[str] | None, problems: str, device: str, top: int, checkpoint: str | None,
                out: Path | None, form: str | None, jobs: int | None, force: bool, journal: str | Path | None = None,
                evidence: bool = True) -> int:
    """Answer the problems of a set, a file or (-) stdin; return the exit code, which is 1 if one has no answer.

    Nothing is written before every problem is read and every argument checked. A file is written as a whole or not at
    all; on stdout each answer is a line as soon as it is known. Raises MisuseError and what `api.predict_many` raises.
    """
    from seqtune.tuner.processes import processors

    from .. import api
    from ..api.bulk import FORMATS
    from ..api.inputs import check_ending, check_free
    from . import progress

    if form is None:
        form = out.suffix[1:].lower() if out is not None and out.suffix[1:].lower() in FORMATS else "jsonl"
    if form not in FORMATS:
        raise MisuseError(f"--format {form!r:.40} is not one of {', '.join(FORMATS)}")
    if out is not None:
        check_ending(out, *ENDINGS[form])
        check_free(out, force)
    wanted = _from_stdin() if problems == "-" and not words else several_problems(words, problems)
    with progress.spinner() as say:
        answers = api.predict_many(wanted, device, top, jobs=jobs or processors(), checkpoint=checkpoint,
                                   journal=journal, evidence=evidence, progress=say)
        missing = _write(answers, out, form)
    if missing:
        progress.note(f"no kernel solves {missing} of {len(wanted)} problems; the reason stands beside each")
    return 1 if missing else 0


def _from_stdin() -> list[object]:
    from seqtune.kernels.problem_sets.parse import parse_lines

    text = sys.stdin.read(LARGEST_INPUT + 1)
    if len(text) > LARGEST_INPUT:
        raise FormatError(f"stdin has more than {LARGEST_INPUT // 1_000_000} MB; split it")
    problems = parse_lines("stdin", text)
    if not problems:
        raise FormatError("stdin holds no problem")
    return list(problems)


def _write(answers: Iterable[BulkAnswer], out: Path | None, form: str) -> int:
    """Write the answers; return the number of problems without candidates."""
    from seqtune.kernels.files import replacing

    if out is None:
        return _write_lines(answers, sys.stdout, form)
    with replacing(out) as scratch, scratch.open("w", encoding="utf-8", newline="") as file:
        return _write_lines(answers, file, form)


def _write_lines(answers: Iterable[BulkAnswer], file: TextIO, form: str) -> int:
    from ..api.bulk import COLUMNS

    missing = 0
    if form == "csv":
        header = io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(COLUMNS)
        file.write(header.getvalue())
    for answer in answers:
        file.write(answer.rows() if form == "csv" else answer.line())
        missing += not answer.candidates
    return missing
