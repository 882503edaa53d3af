"""Parsing of problems: functions that read them from text, JSON and files.

`parse_problem` reads words (`conv2d c=64 h=56 k=64 r=3 pad=1`), a JSON object, or another
tool's text such as a MIOpenDriver command line in MIOpen's logs (`foreign_text`). `read_problems` reads a file of
problems; `problem_set` reads a named network or a file.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, ProblemError, json_fault

from ..files import read_bounded
from ..operations.feature import Value
from ..operations.operation import Operation
from ..operations.table import OPERATIONS, operation, operations
from ..problem import Problem
from .foreign_text import foreign_text
from .networks import NETWORKS, network

LARGEST_FILE = 10_000_000  # bytes
MOST_PROBLEMS = 100_000
LONGEST_FORM = 100_000  # characters of one problem

_YES_NO = {"1": "yes", "true": "yes", "on": "yes", "0": "no", "false": "no", "off": "no"}
_HELP = (f'write for example: {operation("conv2d").example}, or {operation("gemm").example}, or as JSON '
         '{"type": "gemm", "m": 64, "n": 256, "k": 128}')

def parse_problem(words: Sequence[str] | str) -> Problem:
    """Parse a problem from words, a JSON object or a MIOpenDriver command line. Raises ProblemError.

    >>> parse_problem("conv2d c=64 size=56 k=64 filter=3 pad=1").key
    'conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad_h=1 pad_w=1'
    """
    text = words if isinstance(words, str) else shlex.join(words)
    if len(text) > LONGEST_FORM:
        raise ProblemError(f"a problem of {len(text)} characters is too long: {text[:40]!r}...")
    whole = text.strip() if isinstance(words, str) else " ".join(words).strip()
    if whole.startswith("{"):
        return _from_json(whole)
    try:
        parts = shlex.split(text)
    except ValueError as error:
        raise ProblemError(f"cannot split {text[:60]!r} into words: {error}") from None
    if not isinstance(words, str) and len(parts) == 1 and " " in parts[0]:
        return parse_problem(parts[0])  # one quoted argument on the command line
    if not parts:
        raise ProblemError(f"no problem given; {_HELP}")
    foreign = foreign_text(parts)
    if foreign is not None:
        form, described = foreign
        return make_problem(form.operation, form.features(described))
    return _from_words(parts)


def _from_words(parts: Sequence[str]) -> Problem:
    name = None
    if "=" not in parts[0]:
        word = parts[0].lower()
        name = next((work.name for work in operations() if word in (work.name, *work.words)), None)
        if name is None:
            raise ProblemError(f"{parts[0][:40]!r} is no problem type ({', '.join(OPERATIONS)}); {_HELP}")
        parts = parts[1:]
    keep_case = name is not None and operation(name).is_open
    given: dict[str, object] = {}
    for part in parts:
        feature, equals, text = part.partition("=")
        if not equals or not feature or not text:
            raise ProblemError(f"{part[:40]!r} is not name=value; {_HELP}")
        feature = feature if keep_case else feature.lower()
        if feature in given:
            raise ProblemError(f"{feature[:40]!r} is given twice")
        given[feature] = text
    return make_problem(name, given)


def _from_json(text: str) -> Problem:
    try:
        values = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"not JSON: {text[:60]!r} ({json_fault(error)})") from None
    kind = values.pop("type", None)
    if kind is not None and not isinstance(kind, str):
        raise ProblemError(f"the type of a problem is a word, not {str(kind)[:40]!r}")
    return make_problem(kind, values)


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is given twice")
    return values


def make_problem(kind: str | None, given: Mapping[str, object]) -> Problem:
    """Make a problem from loosely written features: shorthands for both axes, yes and no in all spellings.

    `kind` is the name of the operation; if it is None, the features' names identify it. Raises ProblemError.
    """
    work = _operation_of(given) if kind is None else operation(kind)
    if work.is_open:
        return Problem.make(work.name, **{name: feature_value(name, value) for name, value in given.items()})
    values: dict[str, Value] = {}
    specific: dict[str, Value] = {}
    for written, value in given.items():
        name = written.lower()
        if name in work.shorthands:
            values.update(dict.fromkeys(work.shorthands[name], feature_value(name, value)))
        elif name == "relu" and name not in work.by_name:
            specific["activation"] = _activation(value)
        else:
            feature, read = work.by_name.get(name), feature_value(name, value)
            specific[name] = _yes_no(read) if feature is not None and "yes" in feature.choices else read
    values.update(specific)
    for name, other in work.repeated.items():
        if other in values:
            values.setdefault(name, values[other])
    return Problem.make(work.name, **values)


def _operation_of(given: Mapping[str, object]) -> Operation:
    """The first operation that has one of the names among its hints. Raises ProblemError."""
    names = {name.lower() for name in given}
    for work in operations():
        if names & work.hints:
            return work
    raise ProblemError(f"cannot tell the type of the problem; {_HELP}")


def _activation(value: object) -> str:
    """The value of the feature `activation` that `relu=yes` or `relu=no` means."""
    wanted = _yes_no(feature_value("relu", value))
    if wanted not in ("yes", "no"):
        raise ProblemError(f"relu={str(value)[:40]!r} is not one of yes, no")
    return "relu" if wanted == "yes" else "none"


def feature_value(name: str, value: object) -> Value:
    """The value of a feature as users write it: a number, a word, or None for unknown. Raises ProblemError."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, int | float):
        return value
    if not isinstance(value, str):
        raise ProblemError(f"{name[:40]!r} must be a number, a word or null, not {str(value)[:40]!r}")
    text = value.strip()
    if text.lower() in ("unknown", "?"):
        return None
    if re.fullmatch(r"[+-]?[0-9]{1,300}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
        return float(text)
    return text


def _yes_no(value: Value) -> Value:
    return value if value is None else _YES_NO.get(str(value).lower(), str(value))


@dataclass(frozen=True, slots=True)
class ProblemLine:
    """A problem of a set, where it stands, and what the set calls it."""

    problem: Problem
    number: int  # of its line, or in a named set of the problem, from 1
    labels: Mapping[str, str] = field(default_factory=dict)  # by the names of their columns
    weight: float = 1.0  # how much it counts: as its row or its file says; NaN: what the row says is no weight
    weight_text: str = ""  # the cell of the weight, if the row has one


def read_problems(path: str | Path) -> list[Problem]:
    """Read the distinct problems of a file in order. Raises FormatError, which names the line."""
    return _problems(read_lines(path))


def read_lines(path: str | Path) -> list[ProblemLine]:
    """Read the lines of a file of problems: of equal problems with equal labels the first. Raises as `every_line`."""
    lines: dict[object, ProblemLine] = {}
    for line in every_line(path):
        lines.setdefault((line.problem, *line.labels.items()), line)
        _bound(path, lines)
    return list(lines.values())


def every_line(path: str | Path, kind: str | None = None) -> Iterator[ProblemLine]:
    """Read the lines of a file of problems, also those that repeat a problem.

    A `.csv` file is a table of problems (`problem_table`), an `.onnx` file a model, whose problems are numbered; their
    weights are how often the model solves them. In other files each line is a problem that `parse_problem` reads; #
    begins a comment. `kind` is the operation of tables that name none; None: the names of their columns tell it. Raises
    FormatError, and for a model what `read_onnx` raises.
    """
    path = Path(path)
    if path.suffix.lower() == ".onnx":
        yield from _model_lines(path)
        return
    content = read_bounded(path, LARGEST_FILE, "; split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8 text (byte {error.start})") from None
    line = None
    for line in _table_lines(path, text, kind) if path.suffix.lower() == ".csv" else _text_lines(path, text):
        yield line
    if line is None:
        raise FormatError(f"{path} holds no problem")


def _model_lines(path: Path) -> list[ProblemLine]:
    from .from_onnx import read_onnx  # it needs `onnx`

    counts: Counter[Problem] = Counter()
    for node in read_onnx(path).nodes:
        counts[node.problem] += node.count
    if not counts:
        raise FormatError(f"{path} has no convolution or matrix product that a problem describes")
    return [ProblemLine(problem, number, weight=count) for number, (problem, count) in enumerate(counts.items(), 1)]


def parse_lines(path: str | Path, text: str) -> list[ProblemLine]:
    """The distinct problems of a text with one on each line, in order; # begins a comment.

    Raises FormatError, which names the line and the path that the text comes from.
    """
    lines: dict[Problem, ProblemLine] = {}
    for line in _text_lines(path, text):
        lines.setdefault(line.problem, line)
        _bound(path, lines)
    return list(lines.values())


def _text_lines(path: str | Path, text: str) -> Iterator[ProblemLine]:
    """The problems of a text with one on each line. Raises FormatError, which names the line."""
    known: dict[str, Problem] = {}  # logs repeat their lines
    for number, line in enumerate(text.splitlines(), 1):
        form = line.strip()
        if not form or form.startswith("#"):
            continue
        try:
            if form not in known:
                known[form] = parse_problem(form if form.startswith("{") else form.split(" #")[0])
        except ProblemError as error:
            raise FormatError(f"{path}:{number}: {error}") from None
        yield ProblemLine(known[form], number)


def _table_lines(path: Path, text: str, kind: str | None) -> Iterator[ProblemLine]:
    """The problems of a table, a row each. Raises FormatError, which names the line."""
    from .problem_table import table_rows

    for row in table_rows(path, text, kind):
        try:
            problem = make_problem(row.type or kind, row.features)
        except ProblemError as error:
            raise FormatError(f"{path}:{row.number}: {error}") from None
        yield ProblemLine(problem, row.number, row.labels, 1.0 if row.weight is None else _weight(row.weight),
                          row.weight or "")


def _weight(cell: str) -> float:
    """The number in a cell, which may be in per cent; NaN if it is none, or less than 0."""
    text, percent = cell.removesuffix("%").strip(), cell.endswith("%")
    try:
        weight = float(text.replace(",", ".")) / (100 if percent else 1)
    except ValueError:
        return math.nan
    return weight if 0 <= weight < math.inf else math.nan


def _problems(lines: Iterable[ProblemLine]) -> list[Problem]:
    """The distinct problems of lines."""
    return list(dict.fromkeys(line.problem for line in lines))


def _bound(path: str | Path, problems: Sized) -> None:
    if len(problems) > MOST_PROBLEMS:
        raise FormatError(f"{path} has more than {MOST_PROBLEMS} problems; split it")


def problem_set(name_or_path: str | Path) -> list[Problem]:
    """The problems of a named network (`resnet18`, or `resnet18:8` for batch 8) or of a file. See `numbered_set`."""
    return _problems(numbered_set(name_or_path))


def numbered_set(name_or_path: str | Path) -> list[ProblemLine]:
    """The problems of a named network with their numbers, or the lines of a file, which may repeat a problem.

    Raises ProblemError if there is no such network and no such file, and what `read_lines` raises.
    """
    return list(_set_lines(name_or_path, read_lines))


def weighed_set(name_or_path: str | Path, kind: str) -> Iterable[ProblemLine]:
    """The problems of a named network, or every line of a file, also those that repeat a problem.

    `kind` is the operation of tables that name none. It raises what `numbered_set` does.
    """
    return _set_lines(name_or_path, partial(every_line, kind=kind))


def _set_lines(name_or_path: str | Path, read: Callable[[str | Path], Iterable[ProblemLine]]) -> Iterable[ProblemLine]:
    name, _, batch = str(name_or_path).partition(":")
    if name.lower() in NETWORKS:
        if batch and not re.fullmatch(r"[1-9][0-9]{0,4}", batch):
            raise ProblemError(f"{batch[:40]!r} is no batch; write {name}:8, for example")
        return [ProblemLine(problem, number) for number, problem in enumerate(network(name, int(batch or 1)), 1)]
    try:
        exists = Path(name_or_path).exists()
    except (OSError, ValueError):  # a name too long for a file, or with a NUL
        exists = False
    if not exists:
        text = str(name_or_path)[:200]
        raise ProblemError(f"no problem set and no file {text!r}; the sets are {', '.join(NETWORKS)}")
    return read(name_or_path)
