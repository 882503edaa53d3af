"""ForeignText: the text by which another tool describes a problem, such as a command line in its logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ..lookup import resolve

# The tool's name of its text -> "module:attribute" of a ForeignText
TEXTS: dict[str, str] = {"MIOpenDriver": "seqtune.integrations.miopen.kernels.driver_command:DRIVER"}


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
