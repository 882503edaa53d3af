"""ForeignText: the text by which another tool describes a problem, such as a command line in its logs.

ForeignTable: a CSV file in which another tool lists problems, such as those that it has not tuned yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..lookup import resolve
from ..operations.feature import Value

# The tool's name of its text -> "module:attribute" of a ForeignText
TEXTS: dict[str, str] = {"MIOpenDriver": "seqtune.integrations.miopen.kernels.driver_command:DRIVER"}
# The tool -> "module:attribute" of a ForeignTable
TABLES: dict[str, str] = {"aiter": "seqtune.integrations.aiter.kernels.product:UNTUNED"}


class ForeignText(NamedTuple):
    """How a tool's text is recognised and read."""

    operation: str  # of its problems
    words_of: Callable[[Sequence[str]], Sequence[str] | None]  # the words that describe a problem; None: not its text
    features: Callable[[Sequence[str]], Mapping[str, object]]  # of these words, some as text. Raises ProblemError


def foreign_text(words: Sequence[str]) -> tuple[ForeignText, Sequence[str]] | None:
    """The form of a tool's text and the words in it that describe the problem; None if no tool writes such words."""
    for reference in TEXTS.values():
        form = resolve(reference)
        assert isinstance(form, ForeignText)
        described = form.words_of(words)
        if described is not None:
            return form, described
    return None


class ForeignTable(NamedTuple):
    """How a tool's table of problems is recognised and read."""

    operation: str  # of its problems
    is_named: Callable[[str], bool]  # whether a file has the name of such a table
    features: Callable[[str, Mapping[str, str]], Mapping[str, Value]]  # of the name of a file and a row's cells by the
    #          names of their columns in small letters. Raises ProblemError, FormatError


def foreign_table(operation: str | None, name: str) -> ForeignTable | None:
    """The form of a tool's table of problems of an operation, by the name of a file; None if no tool writes such."""
    for form in map(resolve, TABLES.values()):
        assert isinstance(form, ForeignTable)
        if form.operation == operation and form.is_named(name):
            return form
    return None
