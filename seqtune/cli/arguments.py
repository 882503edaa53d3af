"""Arguments: words of the command line as problems, names and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import MisuseError, shown

if TYPE_CHECKING:
    from seqtune.kernels.problem_sets.parse import ProblemLine


def parts(text: str | None) -> list[str]:
    """The parts of a comma-separated text."""
    return [part.strip() for part in text.split(",") if part.strip()] if text else []


def numbers(option: str, text: str) -> list[int]:
    """The whole numbers of a comma-separated text. Raises MisuseError."""
    words = parts(text)
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        raise MisuseError(f"{option} {text!r:.60} is not a list of whole numbers, separated by commas")
    return list(map(int, words))


def refuse_options(words: list[str]) -> None:
    """Raise MisuseError for an unknown option, unless the words are the text of another tool."""
    from seqtune.kernels.problem_sets.foreign_text import foreign_text

    if foreign_text(words) is None:
        for word in words:
            if word.startswith("-") and len(word) > 1 and not word[1:2].isdigit():
                raise MisuseError(f"no option {word.partition('=')[0]!r:.40} (--help lists them)")


def one_problem(words: list[str] | None) -> Any:
    """The problem that the words describe. Raises MisuseError, ProblemError."""
    from seqtune.kernels.problem_sets.parse import parse_problem

    if not words:
        raise MisuseError("no problem given; for example: conv2d c=64 h=56 w=56 k=64 r=3 s=3 pad=1")
    refuse_options(words)
    return parse_problem(words)


_EITHER = "give either a problem or --problems SET_OR_FILE (an operation before it: only its problems)"


def numbered_problems(words: list[str] | None, named: str) -> list[ProblemLine]:
    """The problems of a named set or a file, all or those of one operation, with their numbers and labels.

    Raises MisuseError, ProblemError.
    """
    from seqtune.kernels.operations.table import OPERATIONS
    from seqtune.kernels.problem_sets.parse import numbered_set

    if not words:
        return numbered_set(named)
    if len(words) > 1 or words[0] not in OPERATIONS:
        raise MisuseError(_EITHER)
    lines = [line for line in numbered_set(named) if line.problem.type == words[0]]
    if not lines:
        raise MisuseError(f"there is no {words[0]} in {named!r:.200}")
    return lines


def several_problems(words: list[str] | None, named: str | None) -> list[Any]:
    """One problem, several quoted ones, or those of a named set: all, or those of one operation.

    Raises MisuseError, ProblemError.
    """
    from seqtune.kernels.problem_sets.parse import parse_problem

    if named:
        return list(dict.fromkeys(line.problem for line in numbered_problems(words, named)))
    if not words:
        raise MisuseError(_EITHER)
    refuse_options(words)
    if len(words) > 1 and all(" " in word.strip() for word in words):  # several problems, each quoted
        return [parse_problem([word]) for word in words]
    return [parse_problem(words)]


def input_sizes(given: Sequence[str] | None) -> dict[str, list[int]]:
    """The sizes of inputs by name from texts such as `x=1x3x224x224`. Raises MisuseError."""
    sizes: dict[str, list[int]] = {}
    for text in given or ():
        name, equals, numbers_text = text.rpartition("=")
        words = numbers_text.split("x")
        if not equals or not name or not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
            raise MisuseError(f"--input {shown(text, 60)} is not a name and its sizes, such as x=1x3x224x224")
        if name in sizes:
            raise MisuseError(f"--input {shown(name, 60)} is given twice")
        sizes[name] = [int(word) for word in words]
    return sizes


def evaluated(words: Sequence[Path], files: Sequence[Path]) -> tuple[str | None, list[Path] | Path | None]:
    """The format and the files that `evaluate` reads; without a format one data set, or None for the shipped ones.

    The first word names a format of the table or is itself a data set. Raises MisuseError.
    """
    from seqtune.data.formats.table import names

    if words and str(words[0]) in names("read") and (files or len(words) > 1 or not words[0].exists()):
        return str(words[0]), [*files, *words[1:]]
    if files or len(words) > 1:
        raise MisuseError("one data set is evaluated at a time; --data is for files of a format that is named first "
                          "(`evaluate miopen --data PATH...`)")
    return None, words[0] if words else None
