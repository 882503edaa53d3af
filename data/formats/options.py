"""FormatOption: an option that a format declares in the table.

The command line makes its options of them, so nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """The kind of an option's value, as a writer receives it; None where it is not given and has no default."""

    TEXT = "text"
    PATH = "path"
    NUMBER = "a whole number"
    SHARE = "a share of 1"
    NUMBERS = "a tuple of whole numbers; commas separate them on the command line"
    NAMES = "a tuple of texts, empty where none is given; may be repeated on the command line"
    PROBLEM = "a Problem"
    JOURNAL = "the path of a journal that exists (without it, the user's own); None where `data` is given"


@dataclass(frozen=True)
class FormatOption:
    """One option of a format: a keyword of its writer, and of `seqtune.export` or `seqtune.serve_files`."""

    name: str
    kind: Kind
    help: str
    default: str | int | None = None
    metavar: str | None = None  # the value in help texts; None: as its type is called

    @property
    def flag(self) -> str:
        """The option on the command line."""
        return flag_of(self.name)


def flag_of(name: str) -> str:
    """The option of this name on the command line, such as `--hold-out` of `hold_out`."""
    return f"--{name.replace('_', '-')}"


def unknown_option(form: str, flag: str, options: Sequence[FormatOption]) -> str:
    """The message for an option that the format does not have; `options` are those that it has."""
    return f"{form} has no option {flag:.40}; its own are {', '.join(option.flag for option in options)}"
