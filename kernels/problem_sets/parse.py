"""Forms: the ways to write a problem, for people, for files and from PyTorch modules.

`parse_problem` reads words (`conv2d c=64 h=56 k=64 r=3 pad=1`), a JSON object, and a MIOpenDriver command line, as
MIOpen's logs print them. `read_problems` reads many from a file, `problem_set` a named network or a file.
"""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqtune.errors import FormatError, ProblemError

from ..files import read_bounded
from ..miopen.driver_command import driver_features, driver_words
from ..operations.feature import Value
from ..operations.operation import Operation
from ..operations.table import OPERATIONS, operation, operations
from ..problem import Problem
from .networks import NETWORKS, network

LARGEST_FILE = 10_000_000  # bytes
MOST_PROBLEMS = 100_000
LONGEST_FORM = 100_000  # characters of one problem

_YES_NO = {"1": "yes", "true": "yes", "on": "yes", "0": "no", "false": "no", "off": "no"}
_HELP = (f'write for example: {operation("conv2d").example}, or {operation("gemm").example}, or as JSON '
         '{"type": "gemm", "m": 64, "n": 256, "k": 128}')

def parse_problem(words: Sequence[str] | str) -> Problem:
    """The problem that the words, the JSON object or the MIOpenDriver command line says. Raises ProblemError.

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
    driver = driver_words(parts)
    if driver is not None:
        return make_problem("conv2d", driver_features(driver))
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
        found = json.loads(text, object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        raise ProblemError(f"not JSON: {text[:60]!r} ({error})") from None
    kind = found.pop("type", None)
    if kind is not None and not isinstance(kind, str):
        raise ProblemError(f"the type of a problem is a word, not {str(kind)[:40]!r}")
    return make_problem(kind, found)


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def make_problem(kind: str | None, given: Mapping[str, object]) -> Problem:
    """A problem from loosely written features: shorthands spread over both axes, yes and no in all spellings.

    `kind` is the name of the operation; without it, the features' names tell it. Raises ProblemError.
    """
    work = _operation_of(given) if kind is None else operation(kind)
    if work.is_open:
        return Problem.make(work.name, **{name: _value(name, value) for name, value in given.items()})
    values: dict[str, Value] = {}
    specific: dict[str, Value] = {}
    for written, value in given.items():
        name = written.lower()
        if name in work.shorthands:
            values.update(dict.fromkeys(work.shorthands[name], _value(name, value)))
        elif name == "relu" and name not in work.by_name:
            specific["activation"] = _activation(value)
        else:
            feature, read = work.by_name.get(name), _value(name, value)
            specific[name] = _yes_no(read) if feature is not None and "yes" in feature.choices else read
    values.update(specific)
    for name, other in work.repeated.items():
        if other in values:
            values.setdefault(name, values[other])
    return Problem.make(work.name, **values)


def _operation_of(given: Mapping[str, object]) -> Operation:
    """The first operation with a hint among the names. Raises ProblemError."""
    names = {name.lower() for name in given}
    for work in operations():
        if names & work.hints:
            return work
    raise ProblemError(f"cannot tell the type of the problem; {_HELP}")


def _activation(value: object) -> str:
    """The feature that `relu=yes` means."""
    wanted = _yes_no(_value("relu", value))
    if wanted not in ("yes", "no"):
        raise ProblemError(f"relu={str(value)[:40]!r} is not one of yes, no")
    return "relu" if wanted == "yes" else "none"


def _value(name: str, value: object) -> Value:
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


def read_problems(path: str | Path) -> list[Problem]:
    """The problems of a file, duplicates dropped, in order. Raises FormatError naming the line.

    `.csv`: a header of feature names (and `type`, `name`, `count`, of which the last two are not read), a problem a
    row, empty cells take defaults. Any other name: a form that `parse_problem` reads on every line; # begins a comment.
    """
    place = Path(path)
    content = read_bounded(place, LARGEST_FILE, "; split it")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{place} is not UTF-8 text (byte {error.start})") from None
    found = _read_csv(place, text) if place.suffix.lower() == ".csv" else _read_lines(place, text)
    if not found:
        raise FormatError(f"{place} holds no problem")
    return found


def _read_lines(place: Path, text: str) -> list[Problem]:
    found: dict[Problem, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        form = line.strip()
        if not form or form.startswith("#"):
            continue
        try:
            found.setdefault(parse_problem(form if form.startswith("{") else form.split(" #")[0]))
        except ProblemError as error:
            raise FormatError(f"{place}:{number}: {error}") from None
        _bound(place, found)
    return list(found)


def _read_csv(place: Path, text: str) -> list[Problem]:
    reader = csv.reader(io.StringIO(text), strict=True)
    found: dict[Problem, None] = {}
    try:
        header = [name.strip().lower() for name in next(reader, [])]
        if not any(header):
            raise FormatError(f"{place} is empty; its first line should name the features, like n,c,h,w,k,r,s")
        if len(set(header)) != len(header):
            raise FormatError(f"{place}:1: a column is named twice")
        for row in reader:
            if not any(cell.strip() for cell in row):
                continue
            if len(row) != len(header):
                raise FormatError(f"{place}:{reader.line_num}: {len(row)} cells under {len(header)} columns")
            cells = {name: cell.strip() for name, cell in zip(header, row, strict=True)
                     if cell.strip() and name not in ("name", "count")}
            kind = cells.pop("type", None)
            try:
                found.setdefault(make_problem(kind, cells))
            except ProblemError as error:
                raise FormatError(f"{place}:{reader.line_num}: {error}") from None
            _bound(place, found)
    except csv.Error as error:
        raise FormatError(f"{place}:{reader.line_num}: not CSV: {error}") from None
    return list(found)


def _bound(place: Path, found: Mapping[Problem, None]) -> None:
    if len(found) > MOST_PROBLEMS:
        raise FormatError(f"{place} has more than {MOST_PROBLEMS} problems; split it")


def problem_set(name_or_path: str | Path) -> list[Problem]:
    """A named network (`resnet18`, also `resnet18:8` for batch 8) or the problems of a file."""
    name, _, batch = str(name_or_path).partition(":")
    if name.lower() in NETWORKS:
        if batch and not re.fullmatch(r"[1-9][0-9]{0,4}", batch):
            raise ProblemError(f"{batch[:40]!r} is no batch; write {name}:8, for example")
        return network(name, int(batch or 1))
    try:
        there = Path(name_or_path).exists()
    except (OSError, ValueError):  # a name too long for a file, or with a NUL
        there = False
    if not there:
        text = str(name_or_path)[:200]
        raise ProblemError(f"no problem set and no file {text!r}; the sets are {', '.join(NETWORKS)}")
    return read_problems(name_or_path)








